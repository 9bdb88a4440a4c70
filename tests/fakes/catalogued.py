"""The fakes of all datasets of the catalogue: for the contract, and for what the site shows of each."""

import dataclasses
import functools
import importlib
from collections.abc import Mapping
from pathlib import Path

from recordzoo import catalogue
from recordzoo.catalogue import Entry
from tests.fakes.fake import Fake, md5
from tests.fakes.scale import ONLY


@functools.cache
def catalogued() -> Mapping[str, Fake]:
    """Return the fakes of all modules beside this one, by the dataset's name."""
    stems = [path.stem for path in sorted(Path(__file__).parent.glob("*.py"))]
    values = [each for stem in stems for each in vars(importlib.import_module(f"tests.fakes.{stem}")).values()]
    return {each.dataset: each for each in values if isinstance(each, Fake) and ONLY in ("", each.dataset)}


def facts_of(fake: Fake) -> Entry:
    """Return what the catalogue says, with the fake's sizes and hashes, and the parts that it has files for."""
    real = catalogue.entry(fake.dataset)
    held = {**fake.files, **fake.tree}
    files = tuple(
        dataclasses.replace(
            file, size_bytes=len(held[file.name]), about_bytes=None, md5=md5(held[file.name]), sha256=None
        )
        for file in real.files
        if file.name in held
    )
    lacking = {part for file in real.files if not (file.optional or file.name in held) for part in file.parts}
    parts = tuple(part for part in real.parts if part.name not in lacking)
    splits = tuple(split for split in real.splits if split.part not in lacking)
    return dataclasses.replace(real, files=files, parts=parts, splits=splits)
