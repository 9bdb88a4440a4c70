"""What the site shows of each dataset is found out from its fake: raw files of the real layout, made by code."""

import atexit
import functools
import io
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import recordzoo
from docs.parts.samples import ANY_MODE, parts
from recordzoo.base.progress import LogProgress
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader
from tests.fakes.catalogued import catalogued

_LOOKED_AT = 24
"""At most so many samples are described."""


@dataclass(frozen=True)
class Sample:
    """What a sample is with some arguments: its items, each in words."""

    arguments: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """What was seen of a dataset.

    Attributes:
        samples: For each class what its samples are, with each choice of arguments that makes a difference.
        record_set: The record set that the first class opened first.
    """

    samples: Mapping[str, tuple[Sample, ...]]
    record_set: RecordReader


def are_wanted() -> bool:
    """Whether the site shows what is found out from fakes: not with ``RECORDZOO_DOCS_FAKES=0``, which is faster."""
    return os.environ.get("RECORDZOO_DOCS_FAKES") != "0"


@functools.cache
def seen(name: str) -> Seen:
    """Prepare a dataset's fake and open its classes; once in a process."""
    fake, root = catalogued()[name], _folder() / name
    root.mkdir()
    fake.write_archive(root)
    samples: dict[str, dict[tuple[str, ...], Sample]] = {}
    sets: list[Path] = []
    with _quiet():
        for case in fake.cases:
            found = samples.setdefault(case.name, {})
            for arguments in case.arguments:
                if any(map(callable, arguments.values())):
                    continue
                dataset = getattr(recordzoo, case.name)(root / case.folder, **arguments, **_OPTIONS)
                sets = sets or _record_sets(root)
                if taken := list(_some(dataset)):
                    items = tuple(parts(taken))
                    found.setdefault(items, Sample(written(arguments), items))
    shown = {kind: tuple(s for s in found.values() if not _is_covered(s, found)) for kind, found in samples.items()}
    return Seen(shown, RecordReader(sets[0]))


def _is_covered(sample: Sample, others: Iterable[tuple[str, ...]]) -> bool:
    """Whether another description says the same more generally: [n, 4] for [1, 4], any mode for RGB."""
    return any(other != sample.items and _pattern(other).fullmatch("\n".join(sample.items)) for other in others)


def _pattern(items: tuple[str, ...]) -> re.Pattern[str]:
    text = re.escape("\n".join(items)).replace(re.escape(ANY_MODE), "[^)]*")
    return re.compile(re.sub(r"\bn\b", r"\\w+", text))


def written(arguments: Mapping[str, Any]) -> str:
    """Write keyword arguments as code."""
    texts = {name: str(value) if hasattr(value, "__fspath__") else value for name, value in arguments.items()}
    return ", ".join(f"{name}={value!r}" for name, value in texts.items()).replace("'", '"')


_OPTIONS: PrepareOptions = {"prepare": True, "check_hash": False, "incomplete": True, "workers": 1}
_OPTIONS |= {"progress": LogProgress()}


def _record_sets(root: Path) -> list[Path]:
    """Find the record sets below a folder; masks and the like, which are opened beside the images, come last."""
    found = sorted(path.parent for path in root.rglob("manifest.json"))
    return sorted(found, key=lambda path: len(path.name))


def _some(dataset: Any) -> Iterator[Any]:
    """Return the first samples; fakes have broken ones, too."""
    for index in range(min(len(dataset), _LOOKED_AT)):
        try:
            yield dataset[index]
        except (recordzoo.errors.RecordZooError, OSError, IndexError):
            continue


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what is said of a fake: that it lacks most of the dataset; and pycocotools, which prints."""
    logger = logging.getLogger("recordzoo")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="recordzoo-docs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
