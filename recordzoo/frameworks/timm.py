"""timm: a reader of images for its `ImageDataset`, and its `create_dataset` with names such as "recordzoo/imagenet".

timm has no register of readers: its own `create_dataset` knows its own names alone. A program of timm's gets datasets
of this package by the import of the one here instead.
"""

import importlib
import inspect
import io
import os
from pathlib import Path
from typing import Any

from recordzoo import catalogue
from recordzoo.base.meant import no_split
from recordzoo.errors import ArgumentError, RecordError
from recordzoo.families.selection import Selection
from recordzoo.loader.source import problem_of

_PREFIX = "recordzoo/"
_FOLDERS = "folder"
_KEPT = ("load_bytes", "input_img_mode", "transform", "target_transform")
_TRAINING = ("train", "training")
_EVALUATION = ("val", "validation", "valid", "eval", "evaluation", "test")
"""What timm calls a split, and datasets call it. "test" is last: it is meant only where there is no other."""


class RecordsReader:
    """A reader for ``timm.data.ImageDataset(root, reader=...)``: the encoded images of a dataset, and their targets.

    Args:
        dataset: A dataset of this package whose images are stored as files. Its transforms are not used; the
            `ImageDataset` has its own.

    Raises:
        ArgumentError: Its images are stored as pixels, its samples were changed, or it has a loader of your own: pass
            the dataset itself to ``timm.data.create_loader``.

    Examples:
        >>> from timm.data import ImageDataset  # doctest: +SKIP
        >>> dataset = ImageDataset("data", reader=RecordsReader(CUB200Record("data")))  # doctest: +SKIP
    """

    def __init__(self, dataset: Any) -> None:
        problem = problem_of(dataset)
        if not problem and dataset._selection.reader.manifest.blobs["image"].encoding != "image":
            problem = "its images are stored as pixels, not as files"
        if problem:
            raise ArgumentError(
                f"RecordsReader cannot read {type(dataset).__name__}: {problem}. Pass the dataset itself to "
                "timm.data.create_loader, which sets its transform."
            )
        self.dataset = dataset
        self._selection: Selection = dataset._selection

    def __len__(self) -> int:
        return len(self._selection)

    def __getitem__(self, index: int) -> tuple[io.BytesIO, Any]:
        """Return the image as a file in memory, and the target.

        Raises:
            RuntimeError: The stored bytes are damaged. Not an OSError, as elsewhere: timm would go on with the next
                sample, which would then come twice.
        """
        try:
            data = self._selection.reader.read("image", self._selection.position(index))
        except RecordError as err:
            raise RuntimeError(str(err)) from err
        return io.BytesIO(data), self._selection.target(index)

    def filename(self, index: int, basename: bool = False, absolute: bool = False) -> str:
        """Return the name of a record: as stored, or its last part, or behind the record set's path."""
        name: str = self._selection.reader.names[self._selection.position(index)]
        if basename:
            return name.rpartition("/")[2]
        return os.path.join(self._selection.reader.path, name) if absolute else name

    def filenames(self, basename: bool = False, absolute: bool = False) -> list[str]:
        """Return the names of all records, in the order of the samples."""
        return [self.filename(index, basename, absolute) for index in range(len(self))]


def create_dataset(name: str, root: str | None = None, split: str = "validation", **options: Any) -> Any:
    """Do what ``timm.data.create_dataset`` does; names that begin with "recordzoo/" are datasets of this package.

    Args:
        name: "recordzoo/" and a dataset of the catalogue whose class has splits ("recordzoo/imagenet");
            "recordzoo/folder" for your own folders or record sets; any other name is timm's.
        root: The dataset's root; of "recordzoo/folder" a directory with folders or record sets named as the splits.
        split: "train", "validation" or another of timm's words for these, or the dataset's own name of a split.
        **options: timm's. For datasets of this package, ``download``, ``load_bytes``, ``input_img_mode``, ``transform``
            and ``target_transform`` count.

    Returns:
        A ``timm.data.ImageDataset``.

    Raises:
        ArgumentError: There is no such dataset or split; or a ``class_map`` is given, which records do not need.
        NotPreparedError: There is no data.
    """
    from timm.data import ImageDataset
    from timm.data import create_dataset as create_timms

    if not name.lower().startswith(_PREFIX):
        return create_timms(name, root, split, **options)
    if options.get("class_map"):
        raise ArgumentError(f"class_map={options['class_map']!r}: {name} has the labels of its records; leave it out.")
    kept = {key: options[key] for key in _KEPT if key in options}
    opened = _open(name[len(_PREFIX) :], root or ".", split, download=bool(options.get("download")))
    return ImageDataset(root, reader=RecordsReader(opened), **kept)


def _open(name: str, root: str, split: str, *, download: bool) -> Any:
    if name == _FOLDERS:
        there = {path.name.removesuffix(".records") for path in Path(root).iterdir() if path.is_dir()}
        module = catalogue.class_modules()["ImageFolderRecord"]
        return _class("ImageFolderRecord", module)(Path(root, _named(root, split, sorted(there))))
    entry = catalogue.entry(name)
    kind = _class(entry.class_names[0], entry.dataset_module)
    if "split" not in inspect.signature(kind).parameters:
        raise ArgumentError(
            f"{kind.__name__} has no argument split that timm's splits could be. Open it yourself and pass it to "
            "timm.data.create_loader."
        )
    arguments: dict[str, Any] = {"download": True} if download else {}
    return kind(root, split=_named(name, split, [each.name for each in entry.splits]), **arguments)


def _class(name: str, module: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _named(owner: str, split: str, known: list[str]) -> str:
    """Return the split that is meant: of this name, or of one that means the same."""
    alike: tuple[str, ...] = next((names for names in (_TRAINING, _EVALUATION) if split in names), ())
    for each in (split, *alike):
        if each in known:
            return each
    raise no_split(owner, split, known)
