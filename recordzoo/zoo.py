"""The catalogue's datasets by name: list them, look one up, prepare one, open a record set. Imports no torch itself."""

import importlib
import os
from pathlib import Path
from typing import Any, Unpack

from recordzoo import catalogue
from recordzoo.catalogue import Entry
from recordzoo.errors import ArgumentError
from recordzoo.preparing import PrepareOptions, ensure
from recordzoo.recipes.declared import dataset_recipe


def list_datasets() -> list[str]:
    """List the names of the datasets that recordzoo knows, sorted.

    Examples:
        >>> import recordzoo
        >>> "cub200" in recordzoo.list_datasets()
        True
    """
    return catalogue.names()


def info(name: str) -> Entry:
    """Return what is known of a dataset: title, license, splits, raw files, record sets.

    Args:
        name: One of `list_datasets`.

    Raises:
        ArgumentError: There is no such dataset.

    Examples:
        >>> import recordzoo
        >>> cub200 = recordzoo.info("cub200")
        >>> {split.name: split.count for split in cub200.splits}
        {'train': 5994, 'test': 5794, 'all': 11788}
    """
    return catalogue.entry(name)


def prepare(
    name: str, root: str | os.PathLike[str] = ".", *, download: bool = True, **options: Unpack[PrepareOptions]
) -> list[Path]:
    """Make the record sets of a dataset, as ``recordzoo prepare`` does; what is there already is left alone.

    A tree of your own is prepared by `ImageFolderRecord`, a list of files by `prepare_list`.

    Args:
        name: A dataset ("imagenet"), or a part of one ("imagenet.val"). Of a dataset, all parts are made that are not
            optional.
        root: Where the raw data is, or is downloaded to; the record sets lie there.
        download: Download raw data that is not there.
        **options: See `PrepareOptions`.

    Returns:
        The record sets' directories.

    Raises:
        ArgumentError: The dataset or part does not exist; or `records_dir` is given for several record sets.
        TermsError: Raw files must be downloaded by hand, or need `accept_terms=True`; the message says how.
        SourceError: Raw data is missing, cannot be downloaded, or is damaged.
        PrepareError: The conversion failed. Finished parts are kept.

    Examples:
        >>> import recordzoo
        >>> recordzoo.prepare("cub200", root="data")  # doctest: +SKIP
        [PosixPath('data/cub200.records')]
    """
    entry, parts = _parts(name)
    if options.get("records_dir") is not None and len(parts) > 1:
        labels = ", ".join(map(entry.label, parts))
        raise ArgumentError(
            f"Argument records_dir names one record set, but {name} has several: {labels}. Name one of them."
        )
    place = Path(root).expanduser()
    options.setdefault("prepare", True)
    return [ensure(dataset_recipe(entry.name, part), place, download=download, **options) for part in parts]


# Any: the dataset class that the set was made by, and its arguments.
def open(path: str | os.PathLike[str], **arguments: Any) -> Any:
    """Open a record set with the dataset class that it was made by.

    Args:
        path: The record set's directory.
        **arguments: Arguments of the class: ``transform``, ``split``, ... Those that choose a record set (``year`` of
            VOC, ``split`` of ImageNet) are known. Of several classes (VOC) the first is taken.

    Returns:
        A dataset class of the catalogue; `ImageFolderRecord` for a tree; else `RecordDataset`, which has
        ImageFolder's attributes.

    Raises:
        ManifestError: There is no record set at `path`.
        OtherSourceError: It has no images. `RecordReader` reads its records.

    Examples:
        >>> import recordzoo
        >>> dataset = recordzoo.open("cub200.records", split="test")  # doctest: +SKIP
        >>> image, label = dataset[0]  # doctest: +SKIP
    """
    from recordzoo.records.reader import RecordReader

    manifest = RecordReader(path).manifest
    modules = catalogue.class_modules()
    name, module = "RecordDataset", "recordzoo.families.record_set"
    if manifest.dataset == "folder":
        name, module = "ImageFolderRecord", modules["ImageFolderRecord"]
    elif manifest.dataset in catalogue.names() and "image" in manifest.blobs:
        entry = catalogue.entry(manifest.dataset)
        name, module = entry.class_names[0], entry.dataset_module
        arguments = {**entry.part(manifest.part).arguments, **arguments}
    return getattr(importlib.import_module(module), name)(path, **arguments)


def _parts(name: str) -> tuple[Entry, list[str]]:
    """Read "imagenet" as all parts of it that are not optional, and "imagenet.val" as one."""
    try:
        entry, part = catalogue.find(name)
    except ArgumentError:
        if not Path(name).exists():
            raise
        raise ArgumentError(
            f"{name} is a path, not the name of a dataset. Pass a tree to ImageFolderRecord, a list of files to "
            "prepare_list()."
        ) from None
    return entry, entry.default_parts if part is None else [part]
