"""Check that an existing record set is what `prepare` was asked for, and that Python can open it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo.cli.targets import Target
from recordzoo.errors import FolderError, OtherSourceError
from recordzoo.program import command

if TYPE_CHECKING:
    from recordzoo.records.reader import RecordReader


@contextlib.contextmanager
def explained(target: Target) -> Iterator[None]:
    """Add the option that helps to the errors of a directory of images; a context manager.

    Raises:
        FolderError: The same error, with the option in its text.
    """
    try:
        yield
    except FolderError as err:
        text = str(err)
        if target.kind in ("tree", "flat") and not target.root.exists():
            text = f"{target.label} does not exist, so its record set cannot be made."
        elif "classes" in err.details:
            text = f"{text.rstrip('. ')}. Remove these folders, or pass --allow-empty."
        if target.split_of:
            # First, because the text may end with a command.
            as_class = command("prepare", target.split_of, "--as-classes")
            text = f"{target.label} is taken as a split (as a class: {as_class}). {text}"
        raise FolderError(text, **err.details) from err


def check_set(target: Target, reader: "RecordReader") -> None:
    """Refuse a record set that is not of a directory as it was asked for, or that holds no images.

    Raises:
        OtherSourceError: It is of something else.
        FolderError: It has no images, or a class has none.
    """
    if target.kind not in ("tree", "flat"):
        return
    found, wanted = reader.manifest.dataset, target.recipe().dataset
    if found != wanted:
        how = {"flat": "images without classes (--flat)", "folder": "images in classes"}
        raise OtherSourceError(
            f"{reader.path} holds {how.get(found, f'records of {found}')}, not {how[wanted]}. Pass --refresh to make "
            "it again, or --output for another place.",
            path=os.fspath(reader.path),
        )
    if not len(reader):
        raise FolderError(f"{reader.path} holds no images. Add some, and pass --refresh.", path=os.fspath(reader.path))
    if target.kind == "tree" and not target.settings.get("allow_empty"):
        _check_classes(target, reader)


def _check_classes(target: Target, reader: "RecordReader") -> None:
    from recordzoo.recipes.class_folders import IMAGE_ENDINGS
    from recordzoo.recipes.folder import raise_if_empty

    empty = reader.manifest.metadata.get("empty_classes")
    try:
        raise_if_empty(empty if isinstance(empty, list) else [], IMAGE_ENDINGS)
    except FolderError as err:
        text = f"{reader.path}: {err}. Pass --allow-empty, or remove these folders and pass --refresh."
        raise FolderError(text, path=os.fspath(reader.path), **err.details) from err


def check_list_now(target: Target, path: Path, was_ready: bool) -> None:
    """Refuse records that are not those of a list as it is now.

    Raises:
        OtherSourceError: They are not.
    """
    from recordzoo.custom.listing import check_list

    check_list(path, target.recipe(), target.root, was_ready=was_ready, full=True)
