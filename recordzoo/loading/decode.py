"""Stored bytes → the image that torchvision's own loader makes of the file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image, UnidentifiedImageError

from recordzoo.errors import ImageError, RecordError
from recordzoo.recipes.images import open_image


def decode_rgb(data: bytes) -> Image.Image:
    """Decode an encoded image to RGB, as `torchvision.datasets.folder.pil_loader` does."""
    return open_image(data).convert("RGB")


@contextmanager
def naming(record_set: str | os.PathLike[str], name: object) -> Iterator[None]:
    """Make what decoding raises name the record set and the file (`name` is made a string only then).

    Raises:
        ImageError: Pillow could not identify or read the image; an OSError, as it is from a file.
        Exception: Anything else that the decoder raised, of its own type, with the name as a note.
    """
    try:
        yield
    except RecordError:
        raise
    except (UnidentifiedImageError, OSError) as err:
        raise ImageError(
            f"{name} in {os.fspath(record_set)} cannot be decoded: {reason(err)}. It is stored as the raw data has it.",
            path=os.fspath(record_set),
            name=str(name),
        ) from err
    except Exception as err:
        err.add_note(f"while decoding {name} in {os.fspath(record_set)}")
        raise


def reason(err: Exception) -> str:
    """Say why Pillow could not decode an image, without a full stop."""
    # Pillow puts the address of the BytesIO into its message, which tells nobody anything.
    return "it is no image that Pillow knows" if isinstance(err, UnidentifiedImageError) else str(err).rstrip(".")
