"""What the formats of annotations share: names of folders, images with their files, problems, the listing."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.files import MAX_TEXT_BYTES, is_folder, read_text
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, Faults, counted, lines_of, name_first
from recordzoo.errors import SourceError
from recordzoo.own.listing import Column, Listing
from recordzoo.own.values import is_storable
from recordzoo.recipes.declared import IMAGE_ENDINGS, SPLIT_NAMES, class_folder_order, files_under
from recordzoo.recipes.folders import is_shown
from recordzoo.records.arrays import leads_out
from recordzoo.records.manifest import BlobSpec, BoxFormat, FieldKind, FieldSpec
from recordzoo.records.reader import is_record_set

COCO, YOLO, VOC, MASKS = "coco", "yolo", "voc", "masks"
"""The names of formats."""

IMAGE_FOLDERS = ("images", "imgs", "img", "image", "img_dir", "jpegimages")
OTHER_FOLDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    YOLO: (("labels", "label"), (".txt",)),
    VOC: (("annotations", "annotation", "labels", "xmls", "xml"), (".xml",)),
    MASKS: (
        ("masks", "mask", "ann_dir", "segmentationclass", "annotations", "labels", "label"),
        (*IMAGE_ENDINGS, ".gif"),
    ),
}
"""Names of the folders that tools write, in lower case: of images; by format, of other files, with their endings."""

OF_CVAT = re.compile(r"^obj_(\w+)_data$")
_FOLDERS = {*IMAGE_FOLDERS, *(name for names, _ in OTHER_FOLDERS.values() for name in names), "segmentationobject"}
_FOLDERS |= {"leftimg8bit", "gtfine", "gtcoarse"}  # of Cityscapes
_OF_MAKESENSE = re.compile("_my-project.*")
OF_MASK = re.compile(r"[ _.-](masks?|seg|segmentation|labels?|gt|l)$", re.IGNORECASE)
"""What the stem of a mask may have behind that of its image."""

_NO_LABELS = re.compile(r"classes|labels|images|notes|train|val|valid|test|readme.*", re.IGNORECASE)
"""Stems of texts that are no label files, if there is no image of that name."""

NUM_NAMED = 5
"""Number of files that a message names."""


def annotated(
    root: Path,
    format: str,
    images: Sequence[str],
    splits: Mapping[str, NDArray[np.int64]],
    columns: Mapping[str, Column],
    *,
    files: Sequence[str] = (),
    masks: Sequence[str] = (),
    metadata: Mapping[str, JSON] | None = None,
    remarks: Sequence[str] = (),
    stated: Mapping[str, tuple[int, int]] | None = None,
) -> Listing:
    """Return the images of a directory with their annotations.

    Args:
        root: The directory; all names are relative to it, with "/" between the parts.
        format: "coco", "yolo", "voc" or "masks".
        images: The N images, in the order of the records.
        splits: int64 positions of each split.
        columns: The annotations of the images: `box_columns` and others.
        files: The annotation files.
        masks: Mask file of each image.
        metadata: Further values for the manifest.
        remarks: Remarks for the user.
        stated: Width and height of images, where the files state them.
    """
    what = [f"{format} annotations", counted(len(images), "image")]
    if boxes := columns.get("boxes"):
        classes = columns["labels"].spec.names
        what.append(f"{counted(sum(map(len, boxes.values)), 'box', 'boxes')} ({boxes.spec.box_format})")
        what += ["polygons"] if "annotations" in columns and boxes.spec.is_normalized else []
        what.append("classes without names" if classes is None else counted(len(classes), "class", "classes"))
    if masks:
        what.append("a mask for each")
    said = ", ".join(f"{name} ({len(found):,})" for name, found in splits.items())
    which = name_first(files, NUM_NAMED) if format == COCO else "The directory"
    return Listing(
        path=root,
        base=root,
        files={"image": images, "mask": masks} if masks else {"image": images},
        names=images,
        columns=columns,
        splits=splits,
        default_target="mask" if masks else "labels",
        specs={"mask": FieldSpec(FieldKind.MASKS)} if masks else {},
        metadata={"annotations": format, **(metadata or {})},
        beside=files,
        stated=stated or {},
        where=f"{which} says so; images were looked for in every folder of {root}.",
        choice="; ".join([f"{', '.join(what)}; {f'splits: {said}' if said else 'no splits'}", *remarks]),
    )


def box_columns(
    boxes: Sequence[NDArray[np.float32]],
    labels: Sequence[NDArray[np.int64]],
    texts: Sequence[bytes],
    classes: tuple[str, ...] | None,
    format: BoxFormat,
    *,
    is_normalized: bool = False,
) -> dict[str, Column]:
    """Return the fields of the objects of N images.

    Args:
        boxes: Boxes of each image, float32 [n, 4].
        labels: Classes of each image's objects, int64 [n], from 0.
        texts: Annotations of each image as JSON; empty if boxes and labels contain everything.
        classes: The class names, if known.
        format: The meaning of a box's numbers.
        is_normalized: Whether coordinates are fractions of the image's width and height.
    """
    found = {
        "boxes": Column(FieldSpec(FieldKind.BOXES, None, format, is_normalized), boxes, BlobSpec("raw", dtype="<f4")),
        "labels": Column(FieldSpec(FieldKind.CLASS, classes), labels, BlobSpec("raw", dtype="<i8")),
    }
    if texts:
        found["annotations"] = Column(FieldSpec(FieldKind.JSON, is_normalized=is_normalized), texts, BlobSpec("json"))
    return found


class Problems(Faults):
    """Collects the problems of a directory's annotation files, and reads them."""

    def __init__(self, root: Path) -> None:
        insist = command("prepare", root, "--from", "classes")
        super().__init__(root, advice=f" To read its folders as classes, run: {insist}")
        self._root = root

    def text(self, name: str, most: int = MAX_TEXT_BYTES) -> str | None:
        """Read a text file of the directory; None if it cannot be read, which is a problem."""
        try:
            return read_text(self._root / name, name, most)
        except SourceError as err:
            self.add(str(err).rstrip("."))
            return None

    def lines(self, name: str) -> list[str]:
        """Read the lines of a text file of the directory, as `text`; none if it cannot be read."""
        return lines_of(self.text(name) or "")


def is_file_name(name: str) -> bool:
    """Whether a path in an annotation file, with "/" between its parts, stays inside the directory."""
    return is_storable(name) and not leads_out(name) and "\0" not in name and name != "."


def is_split(folder: str) -> bool:
    """Whether a folder has the name of a split, maybe with a year: "train2017"."""
    return folder.lower().rstrip("0123456789") in SPLIT_NAMES


def is_usual_folder(name: str) -> bool:
    """Whether tools give this name to a folder of images, or to one of their annotations."""
    return name.lower() in _FOLDERS or OF_CVAT.match(name.lower()) is not None


def slug(text: str) -> str:
    """Convert a text to the characters of a split's name: lower-case letters, digits and "-"."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:64]


def split_name(text: str) -> str:
    """Convert a text to a split's name; the year of "train2017" is dropped."""
    name = slug(text)
    return name.rstrip("0123456789") if is_split(name) else name


class Pairs:
    """The images of a directory, or of its folders named like splits, and the files that say something of them.

    Hidden files, which macOS and Jupyter make, are left out.

    Both are in folders of their own, `images/` and `labels/`; or side by side.

    Args:
        root: The directory.
        format: Decides how the folders are called, and the files end.

    Attributes:
        images: The images, relative to the directory, in ImageFolder's order.
        others: The other files by their stems: "train/cat/1" for train/images/cat/1.jpg.
        is_beside: Whether they lie side by side.
    """

    def __init__(self, root: Path, format: str) -> None:
        self._format, self._folders = format, OTHER_FOLDERS[format][0]
        images, others = self._in_folders(root, OTHER_FOLDERS[format][1])
        self.is_beside = not others and not images
        if self.is_beside:
            images, others = self._side_by_side(root, OTHER_FOLDERS[format][1])
        names = list(images)
        self.images = [names[place] for place in class_folder_order(names).tolist()]
        self._stem_of, self._stems = images, _by_stem(images)
        self.others = _by_stem({name: self._stem_of_image(stem) for name, stem in others.items()})
        for stem in [each for each in self.others if each not in self._stems]:
            if format == YOLO and _NO_LABELS.fullmatch(stem.rpartition("/")[2]):
                del self.others[stem]

    def _in_folders(self, root: Path, endings: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
        """Return images and other files with their stems."""
        found: tuple[dict[str, str], dict[str, str]] = {}, {}
        tops = ["", *(f"{name}/" for name in _folders(root) if is_split(name))]
        for top in tops:
            inside = [name for name in _folders(root / top) if not is_record_set(root / top / name)]
            usual = [name for name in inside if name.lower() in IMAGE_FOLDERS]
            images = dict.fromkeys(usual or (["data"] if "data" in inside else []), "")
            others = {name: "" for name in inside if _OF_MAKESENSE.sub("", name.lower()) in self._folders}
            if self._format == MASKS:  # train/ and train_masks/
                pairs = [name for name in inside if f"{name}_masks" in inside]
                images |= {name: f"{name}/" for name in pairs}
                others |= {f"{name}_masks": f"{name}/" for name in pairs}
            files = {name: part for name, part in others.items() if images and files_under(root, top + name, endings)}
            for kind, folders, wanted in ((0, images, IMAGE_ENDINGS), (1, files, endings)):
                for folder, part in folders.items() if files else ():
                    for name in filter(is_shown, files_under(root, top + folder, wanted)):
                        found[kind][name] = top + part + stem_of(name[len(f"{top}{folder}/") :])
        return found

    def _side_by_side(self, root: Path, endings: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
        images, others = ({name: stem_of(name) for name in _below(root, each)} for each in (IMAGE_ENDINGS, endings))
        if self._format == MASKS:
            masks = {name for name, stem in others.items() if OF_MASK.search(stem)}
            images = {name: stem for name, stem in images.items() if name not in masks}
            others = {name: others[name] for name in masks}
        return images, others

    def _stem_of_image(self, stem: str) -> str:
        """Return the stem of the image that a file is about: 1.jpg.txt, and 1_mask.png, are of 1.jpg."""
        shorter = stem_of(stem) if stem.lower().endswith(IMAGE_ENDINGS) else OF_MASK.sub("", stem)
        return shorter if stem not in self._stems and shorter in self._stems else stem

    @property
    def match(self) -> bool:
        """Whether any image has another file."""
        return not self._stems.keys().isdisjoint(self.others)

    @property
    def folders(self) -> set[str]:
        """The folders that may be splits; "" if images are in none."""
        return {stem.rpartition("/")[0].partition("/")[0] for stem in self._stems}

    def of(self, image: str) -> str | None:
        """Return the other file of an image; None if there is none."""
        return self.others.get(self._stem_of[image], [None])[0]

    def check(self, problems: Problems, *, is_optional: bool = False) -> None:
        """Report files without image, files that share a stem and, unless `is_optional`, images without file."""
        what = self._folders[0]
        if not self.images or not self.others:
            problems.add(f"it has no images in images/ with files in {what}/, and none side by side")
        alone = {"image": [file for stem, files in self.others.items() if stem not in self._stems for file in files]}
        if not is_optional:
            alone[what] = [files[0] for stem, files in self._stems.items() if stem not in self.others]
        for missing, files in alone.items():
            if files:
                problems.add(f"no {missing} for {counted(len(files), 'file')}: {name_first(files, NUM_NAMED)}")
        for files in (*self._stems.values(), *self.others.values()):
            if len(files) > 1:
                problems.add(f"{' and '.join(files)} have one stem")

    def splits(self) -> dict[str, NDArray[np.int64]]:
        """Return the splits by the folder above `images`, or the first one below it, if all are named like splits."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.images):
            folder = self._stem_of[name].rpartition("/")[0].partition("/")[0]
            found.setdefault(OF_CVAT.sub(r"\1", folder), []).append(position)
        if not all(map(is_split, found)):
            return {}
        return {split_name(folder): np.array(positions, np.int64) for folder, positions in found.items()}


def _folders(root: Path) -> list[str]:
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if is_folder(entry))


def _below(root: Path, endings: tuple[str, ...]) -> list[str]:
    names = (name.removeprefix("./") for name in files_under(root, "", endings))
    return list(filter(is_shown, names))


def stem_of(name: str) -> str:
    """Return a path without its ending."""
    return os.path.splitext(name)[0]


def _by_stem(stems: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, stem in stems.items():
        found.setdefault(stem, []).append(name)
    return found
