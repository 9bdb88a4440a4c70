"""The fakes of all datasets of the catalogue in one form: for the contract, and for what the site shows of each."""

import dataclasses
import functools
import hashlib
import importlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo import catalogue
from recordzoo.catalogue import Entry, FileFacts
from tests.fakes import cub200, imagenet, voc
from tests.fakes.fake import Case, Fake
from tests.fakes.scale import ONLY


@dataclass(frozen=True)
class Catalogued:
    """The raw files of a dataset.

    Attributes:
        dataset: Its name in the catalogue.
        write: Writes the raw files under a root, as a download leaves them.
        cases: With which arguments its classes are tried.
    """

    dataset: str
    write: Callable[[Path], object]
    cases: Sequence[Case]

    def entry(self) -> Entry:
        """Return what the catalogue says, with the fake's sizes and hashes, and the parts that it has files for."""
        real = catalogue.entry(self.dataset)
        with tempfile.TemporaryDirectory() as folder:
            self.write(Path(folder))
            found = [(file, Path(folder) / real.folder / file.name) for file in real.files]
            files = tuple(_facts(file, path.read_bytes()) for file, path in found if path.is_file())
        held = {file.name for file in files}
        lacking = {part for file in real.files if not (file.optional or file.name in held) for part in file.parts}
        parts = tuple(part for part in real.parts if part.name not in lacking)
        splits = tuple(split for split in real.splits if split.part not in lacking)
        return dataclasses.replace(real, files=files, parts=parts, splits=splits)


def _facts(file: FileFacts, data: bytes) -> FileFacts:
    md5 = hashlib.md5(data).hexdigest()
    return dataclasses.replace(file, size_bytes=len(data), about_bytes=None, md5=md5, sha256=None)


def _cub200() -> Catalogued:
    made = cub200.build()

    def write(root: Path) -> None:
        root.mkdir(exist_ok=True)
        made.write_archive(root)
        made.write_mask_archive(root)

    kinds = ("category", "bbox", "parts", "attributes", "segmentation")
    return Catalogued("cub200", write, [Case("CUB200Record", [{"target_type": kind} for kind in (*kinds, [*kinds])])])


def _imagenet() -> Catalogued:
    made = imagenet.build(broken_exif=False)

    def write(root: Path) -> None:
        root.mkdir(exist_ok=True)
        for write in (made.write_train_archive, made.write_val_archive, made.write_devkit):
            write(root)

    return Catalogued("imagenet", write, [Case("ImageNetRecord", ({}, {"split": "val"}))])


def _voc() -> Catalogued:
    cases = [Case("VOCDetectionRecord"), Case("VOCSegmentationRecord")]
    return Catalogued("voc", voc.build().write_archive, cases)


def fakes() -> list[Fake]:
    """Return the fakes of all modules beside this one."""
    stems = [path.stem for path in sorted(Path(__file__).parent.glob("*.py"))]
    values = [each for stem in stems for each in vars(importlib.import_module(f"tests.fakes.{stem}")).values()]
    found = {each.dataset: each for each in values if isinstance(each, Fake) and ONLY in ("", each.dataset)}
    return list(found.values())


@functools.cache
def catalogued() -> Mapping[str, Catalogued]:
    """Return the raw files of all datasets, by name."""
    declared = [Catalogued(fake.dataset, fake.write_archive, fake.cases) for fake in fakes()]
    return {each.dataset: each for each in (*declared, _cub200(), _imagenet(), _voc())}
