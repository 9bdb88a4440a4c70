"""The catalogue's datasets by name, from Python: list them, look one up, prepare one. Imports no torch."""

import importlib
import os
from pathlib import Path
from typing import Unpack

from recordzoo import catalogue
from recordzoo.catalogue import Entry
from recordzoo.errors import ArgumentError
from recordzoo.preparing import PrepareOptions, ensure


def list_datasets() -> list[str]:
    """List the names of the datasets that recordzoo knows, sorted.

    Examples:
        >>> import recordzoo
        >>> recordzoo.list_datasets()
        ['cifar10', 'cub200', 'imagenet', 'voc']
    """
    return catalogue.names()


def info(name: str) -> Entry:
    """Return what is known of a dataset: title, licence, splits, raw files, record sets.

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
        raise ArgumentError(f"Argument records_dir names one record set, but {name} has several: {labels}.")
    module = importlib.import_module(entry.recipe_module)
    place = Path(root).expanduser()
    options.setdefault("prepare", True)
    return [ensure(module.recipe(part), place, download=download, **options) for part in parts]


def _parts(name: str) -> tuple[Entry, list[str]]:
    """Read "imagenet" as all parts of it that are not optional, and "imagenet.val" as one."""
    dataset, dot, part = name.partition(".")
    if dataset not in catalogue.names() or (dot and not part):
        if Path(name).exists():
            raise ArgumentError(
                f"{name} is a path, not the name of a dataset. Pass a tree to ImageFolderRecord, a list of files to "
                "prepare_list()."
            )
        raise catalogue.unknown(name)
    entry = catalogue.entry(dataset)
    if part:
        return entry, [entry.part(part).name]
    return entry, [each.name for each in entry.parts if not each.optional]
