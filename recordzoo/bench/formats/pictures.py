"""The images that all formats are given: some of a person's own, as files in a folder for each class."""

import random
from collections.abc import Iterator
from pathlib import Path

from recordzoo.bench.formats.base import Samples
from recordzoo.errors import FolderError, OtherSourceError
from recordzoo.records.reader import is_record_set


def gather(path: Path, split: str | None, num_images: int, folder: Path) -> None:
    """Copy images chosen at random, the same ones each time, into folders named by their labels.

    Args:
        path: A record set, or a tree of class folders.
        split: Only a split of the record set.
        folder: Where they are copied to; it is created.

    Raises:
        FolderError: There are no images.
        NotPreparedError: There is no such split.
        OtherSourceError: The record set stores pixels, not encoded images.
    """
    count = 0
    images = _of_records(path, split, num_images) if is_record_set(path) else _of_tree(path, num_images)
    for count, (data, label, ending) in enumerate(images, 1):
        target = folder / f"{label:06d}" / f"{count - 1:08d}{ending}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    if not count:
        raise FolderError(f"There are no images in {path}.", path=str(path))


def samples_of(folder: Path) -> Samples:
    """List the gathered files with their labels, in ImageFolder's order."""
    from torchvision.datasets import ImageFolder

    found: Samples = ImageFolder(str(folder)).samples
    return found


_Image = tuple[bytes, int, str]


def _of_tree(path: Path, num_images: int) -> Iterator[_Image]:
    from torchvision.datasets import ImageFolder

    samples = ImageFolder(str(path), allow_empty=True).samples
    for index in _chosen(len(samples), num_images):
        name, label = samples[index]
        yield Path(name).read_bytes(), label, Path(name).suffix.lower()


def _of_records(path: Path, split: str | None, num_images: int) -> Iterator[_Image]:
    from recordzoo.bench.loaders import image_selection
    from recordzoo.recipes.images import sniffed_ending

    selection = image_selection(path, split or "")
    reader = selection.reader
    if reader.manifest.blobs["image"].encoding == "raw":
        raise OtherSourceError(
            f"{path} stores pixels. Formats are compared with encoded images: JPEG, PNG, ...", path=str(path)
        )
    for index in _chosen(len(selection), num_images):
        data = reader.read("image", selection.position(index))
        yield data, int(selection.target(index)), sniffed_ending(data) or ".jpg"


def _chosen(total: int, num_images: int) -> list[int]:
    return sorted(random.Random(0).sample(range(total), min(num_images, total)))
