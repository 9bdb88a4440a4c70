"""Errors of directories of images, with the option that helps."""

import contextlib
from collections.abc import Iterator

from recordzoo.custom.targets import Target
from recordzoo.errors import FolderError
from recordzoo.program import command


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
            as_class = command("prepare", target.split_of, "--from", "classes")
            text = f"{target.label} is taken as a split (as a class: {as_class}). {text}"
        raise FolderError(text, **err.details) from err
