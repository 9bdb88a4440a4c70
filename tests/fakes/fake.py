"""`Fake`: the raw files of a dataset in the catalogue, made by code, as its host has them; small and seeded.

`fake` makes one of a function that returns raw files, and of the cases that the dataset's classes are compared on.
"""

import atexit
import functools
import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.random import Generator
from torchvision.datasets.utils import extract_archive

from recordzoo import catalogue
from recordzoo.net.url import RemoteFile
from tests.fakes import archives
from tests.fakes.folder import write_tree
from tests.fakes.scale import COUNT, ONLY


@dataclass(frozen=True)
class OtherFile(os.PathLike[str]):
    """An argument that is a path: of a file that lies apart from the raw files, the same one for both classes."""

    name: str
    data: bytes = field(repr=False)

    def __fspath__(self) -> str:
        path = _other_files() / md5(self.data) / self.name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self.data)
        return str(path)

    def __str__(self) -> str:
        return self.name


@functools.cache
def _other_files() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="recordzoo-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


ARCHIVES = (".tar", ".tgz", ".gz", ".zip", ".bz2", ".xz")


@dataclass(frozen=True)
class Case:
    """What one dataset class is compared with torchvision's on.

    Attributes:
        name: The class, as it is imported from `recordzoo`.
        arguments: Constructor arguments: each is a configuration whose samples are compared; the first gets all tests.
        bad_arguments: Arguments that both classes refuse in the same words.
        mutations: Changes of attributes, done to both; what the samples are afterwards is compared.
        attributes: Class attributes, hashes for example, by which both classes accept the fake; or a function that
            makes them of its raw files.
        sources: How the raw data lies there: "tree", "archive".
        folder: What of the root both constructors get, if that is not the root itself.
        handles: Attributes that are not compared: other datasets, open files.
        differences: Errors that differ on purpose: patterns of torchvision's text and of ours, and why.
        theirs: What ours is compared with; None: torchvision's class of that name.
        optional: Arguments that torchvision's class requires and ours does not.
    """

    name: str
    arguments: Sequence[Mapping[str, Any]] = ({},)
    bad_arguments: Sequence[Mapping[str, Any]] = ()
    mutations: Mapping[str, Callable[[Any], None]] = field(default_factory=dict)
    attributes: Any = field(default_factory=dict)
    sources: Sequence[str] = ("tree", "archive")
    folder: str = ""
    handles: Sequence[str] = ()
    differences: Sequence[tuple[str, str, str]] = ()
    theirs: type | None = None
    optional: Sequence[str] = ()


@dataclass(frozen=True)
class Fake:
    """The raw files of a dataset.

    Attributes:
        dataset: Its name in the catalogue.
        files: The raw files by name.
        cases: What is compared.
        unpack: Makes torchvision's tree of the raw files, which are in a folder; by default each is extracted there.
        is_tree: torchvision reads the raw files as they are, compressed or not: they are its tree.
        keeps_archives: torchvision wants the archives beside what comes out of them.
        tree: Files of the extracted tree, where that is the only way in: the raw files lie beside it, and are not read.
    """

    dataset: str
    files: Mapping[str, bytes]
    cases: Sequence[Case]
    unpack: Callable[[Path], None] | None = None
    is_tree: bool = False
    keeps_archives: bool = False
    tree: Mapping[str, bytes] = field(default_factory=dict)

    def write_archive(self, root: Path) -> Path:
        """Write the raw files, as a download leaves them."""
        write_tree(root / catalogue.entry(self.dataset).folder, {**self.files, **self.tree})
        return root

    def write_tree(self, root: Path) -> Path:
        """Write the tree that torchvision makes of them; without the archives, unless it wants them."""
        if self.is_tree or self.tree:
            return self.write_archive(root)
        folder = self.write_archive(root) / catalogue.entry(self.dataset).folder
        if self.unpack is not None:
            self.unpack(folder)
        for name in self.files:
            if name.endswith(ARCHIVES):
                if self.unpack is None:
                    extract_archive(folder / name, folder)
                if not self.keeps_archives:
                    (folder / name).unlink(missing_ok=True)
        return root

    def remote_files(self, url: Callable[[str], str] = lambda name: "") -> tuple[RemoteFile, ...]:
        """Describe the raw files with the hashes that they have."""
        folder = catalogue.entry(self.dataset).folder
        urls = {name: (url(name),) if url(name) else () for name in self.files}
        return tuple(
            RemoteFile(name, urls[name], size_bytes=len(data), md5=md5(data), folder=folder)
            for name, data in self.files.items()
        )


# Any: other attributes of `Fake`.
def fake(
    dataset: str, *cases: Case, seed: int = 0, **how: Any
) -> Callable[[Callable[[Generator], Mapping[str, bytes]]], Fake]:
    """Make a dataset's fake of a function: from a seeded generator to the raw files by name."""

    def build(raw_files: Callable[[Generator], Mapping[str, bytes]]) -> Fake:
        if ONLY not in ("", dataset):
            return Fake(dataset, {}, ())
        files = raw_files(np.random.default_rng(seed))
        made = [
            replace(each, attributes=each.attributes(files)) if callable(each.attributes) else each for each in cases
        ]
        return Fake(dataset, files, made, **how)

    return build


def by(name: str, *values: Any) -> tuple[Mapping[str, Any], ...]:  # Any: arguments of any type
    """Return constructor arguments: one argument, with each of these values."""
    return tuple({name: value} for value in values)


def text(lines: Iterable[str]) -> bytes:
    """Write lines of text."""
    return "".join(f"{line}\n" for line in lines).encode()


_listdir = os.listdir


def in_order(kind: type) -> type:
    """Make torchvision's class with sorted listings, where it takes the order of the file system."""

    # Any: the class's own arguments.
    @functools.wraps(kind.__init__)  # type: ignore[misc]  # of a class, not of an instance
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        with mock.patch("os.listdir", lambda path: sorted(_listdir(path))):
            kind.__init__(self, *args, **kwargs)  # type: ignore[misc]  # as above

    return type(kind.__name__, (kind,), {"__init__": begin, "__doc__": kind.__doc__})


def tar(files: Mapping[str, bytes], *, compress: bool = True) -> bytes:
    """Make a tar, or tar.gz, with entries for its folders, as people pack them; the same bytes each time."""
    folders = sorted({parent.as_posix() for name in files for parent in Path(name).parents if parent.name})
    entries = [archives.entry(folder, tarfile.DIRTYPE) for folder in folders]
    for each in entries:
        each.mode = 0o755
    data = archives.tar([*entries, *files.items()])
    return gzip.compress(data, 9 if COUNT == 1 else 1, mtime=0) if compress else data


_APPLE_DOUBLE = bytes.fromhex("0005160700020000") + b"Mac OS X        " + bytes(2)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Make a zip as macOS does: beside one file of each kind lies "__MACOSX/.../._name", what it knows of that file."""
    one_of_each = {path.suffix: path for path in map(Path, files)}
    beside = [
        ("__MACOSX" / path.with_name(f"._{path.name}")).as_posix() for path in one_of_each.values() if path.suffix
    ]
    return archives.zipped({**dict.fromkeys(beside, _APPLE_DOUBLE), **files})


def md5(data: bytes) -> str:
    """Return the MD5 in hexadecimal, as torchvision's classes have it."""
    return hashlib.md5(data).hexdigest()
