"""A zip of class folders, as Kaggle has them: ``train/cat/1.jpg``, in the order of torchvision's `ImageFolder`."""

import itertools
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from recordzoo.base.text import counted
from recordzoo.errors import ArchiveError, FolderError
from recordzoo.formats.base import Foreign, Piece, Sample, fault, first_bytes, split_name
from recordzoo.raw.member import MAX_MEMBER_BYTES, Member, greedy_runs
from recordzoo.raw.zip import ZIP_STARTS, opened_zip, unzipped_name
from recordzoo.recipes.declared import are_splits, class_folder_order, is_image
from recordzoo.recipes.folders import is_shown
from recordzoo.recipes.recipe import NO_TARGET

LOOKS_FOR = "a file *.zip with a folder for each class"

_PIECE_BYTES = 64 << 20
_MAX_PIECES = 64  # each process reads the zip's directory: 1 s for 100,000 members
_KEYS = ("image", "target")


@dataclass(frozen=True, slots=True)
class _Image:
    """An image of a zip: the member, its name below the skipped top folder, split and class ("" if there is none)."""

    member: str
    name: str
    size_bytes: int
    split: str
    label: str


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `recordzoo.formats`."""
    path = Path(location)
    if path.suffix.lower() != ".zip" or not path.is_file():
        return None
    if first_bytes(path, 4) not in ZIP_STARTS:
        raise ArchiveError(f"{path} is no zip, or a cut one: it does not begin as one.", path=path)
    return ZippedFolders(location, fields, path)


class ZippedFolders(Foreign):
    """The images of class folders in a zip; a piece is a run of them, in `ImageFolder`'s order."""

    format = "zip"

    def __init__(self, location: str, fields: Mapping[str, str], path: Path) -> None:
        super().__init__(location, fields)
        self.check_fields(_KEYS)
        self._path = path
        with path.open("rb") as file, opened_zip(path, file, path.stat().st_size, is_strict=True) as members:
            images = _in_order(path, members)
        self.classes = sorted({image.label for image in images if image.label} | set(_empty_classes(path, images)))
        self.pieces = list(self._cut(images))
        self._images: list[_Image] | None = images

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_images": None}  # a worker reads them from the zip

    def _cut(self, images: Sequence[_Image]) -> Iterator[Piece]:
        """Cut the images into pieces, at least one for each split."""
        target_bytes = max(_PIECE_BYTES, sum(image.size_bytes for image in images) // _MAX_PIECES)
        start = 0
        for split, group in itertools.groupby(images, key=lambda image: image.split):
            sizes = [image.size_bytes for image in group]
            for first, stop in greedy_runs(sizes, target_bytes):
                name = f"{split or self._path.stem} {first}-{stop}"
                yield Piece(name, sum(sizes[first:stop]), (self._path,), start + first, start + stop, split_name(split))
            start += len(sizes)

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        image_field, target_field = (self.fields.get(key, key) for key in _KEYS)
        label_of = {"": NO_TARGET, **{name: label for label, name in enumerate(self.classes or ())}}
        size_bytes = self._path.stat().st_size
        with self._path.open("rb") as file, opened_zip(self._path, file, size_bytes, is_strict=True) as members:
            by_name = {member.name: member for member in members}
            if self._images is None:
                self._images = _in_order(self._path, by_name.values())
            for image in self._images[piece.start : piece.stop]:
                if image.member not in by_name:
                    raise fault(self._path, f" changed: {image.member} is gone.")
                data = by_name[image.member].read()
                yield Sample.of({image_field: data, target_field: label_of[image.label]}, image.name)


def _in_order(path: Path, members: Iterable[Member]) -> list[_Image]:
    """Return the images of all splits, those of each in `ImageFolder`'s order."""
    sizes = {member.name: member.size_bytes for member in members if is_image(member.name) and is_shown(member.name)}
    if not sizes:
        raise FolderError(f"There are no images in {path}.", path=str(path))
    large = next((name for name, size_bytes in sizes.items() if size_bytes > MAX_MEMBER_BYTES), None)
    if large is not None:
        raise fault(path, f": {large} has {sizes[large]:,} bytes; {MAX_MEMBER_BYTES:,} are the limit.")
    top = _common_top(list(sizes))
    folders = sorted({name[len(top) :].partition("/")[0] for name in sizes if "/" in name[len(top) :]})
    images: list[_Image] = []
    for split in folders if are_splits(folders) else [""]:
        start = f"{top}{split}/" if split else top
        names = [name.removeprefix(start) for name in sizes if name.startswith(start)]
        flat = [f"{start}{name}" for name in names if "/" not in name]
        if flat and (not split or len(flat) < len(names)):  # a split without class folders has no labels
            raise _no_class(path, flat)
        for index in class_folder_order(names).tolist():
            member, label = f"{start}{names[index]}", "" if flat else names[index].partition("/")[0]
            images.append(_Image(member, member.removeprefix(top), sizes[member], split, label))
    if len(images) < len(sizes):
        there = {image.member for image in images}
        raise _no_class(path, [name for name in sizes if name not in there])
    if not any(image.label for image in images):
        raise _no_class(path, list(sizes))
    return images


def _empty_classes(path: Path, images: Sequence[_Image]) -> Iterator[str]:
    """Name the class folders, also those without images: `ImageFolder` numbers them, too."""
    labelled = next(image for image in images if image.label)
    top = labelled.member.removesuffix(labelled.name)
    starts = {f"{top}{image.split}/" if image.split else top for image in images if image.label}
    with zipfile.ZipFile(path) as archive:
        names = map(unzipped_name, archive.infolist())
        folders = [name.removesuffix("/") for name in names if name.endswith("/") and is_shown(name)]
    for folder in folders:
        inner = folder.rpartition("/")[2]
        if inner and folder.removesuffix(inner) in starts:
            yield inner


def _common_top(names: Sequence[str]) -> str:
    """Return the one folder that holds all class folders, with a "/" at its end; "" if the classes are at the top."""
    tops = {name.partition("/")[0] for name in names}
    if len(tops) > 1:
        return ""
    inner = [name.partition("/")[2] for name in names]
    return f"{tops.pop()}/" if all("/" in name for name in inner) else ""


def _no_class(path: Path, names: Sequence[str]) -> FolderError:
    lie = counted(len(names), "image lies", "images lie")
    return FolderError(
        f"{path}: {lie} in no class folder, such as {names[0]!r}. Unpack it, and move them into one folder for each "
        "class, or write a list (.csv, .txt) of paths and labels and prepare that.",
        path=str(path),
        num_images=len(names),
    )
