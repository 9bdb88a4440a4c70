"""torchvision's datasets of image files with labels from records: CLEVR, DTD, ...; some number images or categories."""

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import (
    DTD,
    GTSRB,
    SUN397,
    Caltech101,
    Caltech256,
    CLEVRClassification,
    FGVCAircraft,
    Flowers102,
    Food101,
    Imagenette,
    INaturalist,
    Omniglot,
    Places365,
    StanfordCars,
)
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform
from typing_extensions import override

from recordzoo.base.text import TrainTest, TrainVal, TrainValTest
from recordzoo.datasets import listed_recipe as recipe
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Pair, Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.files import CategoryFilesDataset, FilesDataset, PathsDataset
from recordzoo.families.folders import Loader, PillowLoader, SamplesDataset, SplitDataset, SplitFilesDataset
from recordzoo.families.selection import Selection, UnlabelledSelection, list_targets, not_listed, with_form
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import class_labels, find_name
from recordzoo.recipes.recipe import NO_TARGET
from recordzoo.records.reader import RecordReader


class CLEVRClassificationRecord(SplitFilesDataset[TrainValTest], FilesDataset, CLEVRClassification):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CLEVRClassification`, read from records: rendered scenes, labelled by their number of objects.

    The labels of the split "test" are None.
    """

    _ENTRY = "clevr"

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return (UnlabelledSelection if split == "test" else Selection)(reader, split)


class DTDRecord(FilesDataset, DTD):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `DTD`, read from records: textures of 47 kinds, in ten partitions.

    Args:
        partition: 1 to 10: which images are in which split.
    """

    _ENTRY = "dtd"

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        partition: int = 1,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ("train", "val", "test"))
        if not isinstance(partition, int) or not 1 <= partition <= 10:
            raise ArgumentError(
                f"Parameter 'partition' should be an integer with `1 <= partition <= 10`, but got {partition} instead"
            )
        self._partition = partition
        self._open_split(root, f"{split}{partition}", transform, target_transform, download, loader, **options)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        # Labels count the classes that the split has images of: all 47, unless the lists were shortened.
        self.classes, labels = class_labels(Selection(reader, split).names())
        return Selection(reader, split, targets=labels)


class FGVCAircraftRecord(FilesDataset, FGVCAircraft):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `FGVCAircraft`, read from records.

    Args:
        annotation_level: "variant" (100 classes), "family" (70) or "manufacturer" (30).
    """

    _ENTRY = "fgvc_aircraft"
    _PATH = str

    def __init__(
        self,
        root: Root,
        split: Literal["train", "val", "trainval", "test"] = "trainval",
        annotation_level: Literal["variant", "family", "manufacturer"] = "variant",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ("train", "val", "trainval", "test"))
        levels = ("variant", "family", "manufacturer")
        self._annotation_level = check_choice(annotation_level, "annotation_level", levels)
        self._open_split(root, split, transform, target_transform, download, loader, **options)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        list_name = f"images_{self._annotation_level}_{split}.txt"
        selection = Selection(reader, split, column=self._annotation_level, listed_in=list_name)
        if (selection.targets() == NO_TARGET).any():
            raise not_listed(reader, f"{self._annotation_level} of each image in the split {split!r}", list_name)
        return selection

    @derived
    def classes(self) -> list[str]:
        """The class names of the annotation level, in the order of their labels."""
        return self._names_of(self._annotation_level)


class Flowers102Record(SplitFilesDataset[TrainValTest], FilesDataset, Flowers102):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Flowers102`, read from records: photographs of 102 kinds of flowers."""

    _ENTRY = "flowers102"


class Food101Record(SplitFilesDataset[TrainTest], FilesDataset, Food101):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Food101`, read from records: photographs of 101 kinds of food."""

    _ENTRY = "food101"

    @derived
    def classes(self) -> list[str]:
        """The names of the classes in the order of their labels."""
        return self._class_names()


class SUN397Record(FilesDataset, SUN397):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SUN397`, read from records: photographs of 397 kinds of scenes, sorted by folder and name."""

    _ENTRY = "sun397"

    @derived
    def classes(self) -> list[str]:
        """The names of the scenes in the order of their labels."""
        return self._class_names()


class GTSRBRecord(SplitDataset[TrainTest], SamplesDataset, GTSRB):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `GTSRB`, read from records; each split is a record set of its own."""

    _ENTRY = "gtsrb"

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return Selection(reader, "" if split == "train" else split)  # class folders have no splits


class ImagenetteRecord(SamplesDataset, Imagenette):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Imagenette`, read from records; each size is a record set of its own.

    Args:
        size: "full", "320px" or "160px": the shorter side of the images.
    """

    _ENTRY = "imagenette"

    def __init__(
        self,
        root: Root,
        split: TrainVal = "train",
        size: Literal["full", "320px", "160px"] = "full",
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ["train", "val"])
        self._size = self._part = check_choice(size, "size", ["full", "320px", "160px"])
        self._open_split(root, split, transform, target_transform, download, loader, **options)
        self.wnids = self._class_names()
        self.wnid_to_idx = {wnid: label for label, wnid in enumerate(self.wnids)}

    @derived
    def classes(self) -> list[tuple[str, ...]]:  # type: ignore[override]  # torchvision's are tuples here
        """The names of each label, as a tuple."""
        return [self._WNID_TO_CLASS[wnid] for wnid in self.wnids]

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The label of each name."""
        return {name: label for label, names in enumerate(self._first_classes()) for name in names}


class Places365Record(SamplesDataset, Places365):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Places365`, read from records; each split and size is a record set of its own.

    Args:
        split: "train-standard", "train-challenge", "val" or "test", whose labels are None.
        small: Images of 256 by 256 pixels instead of the large ones.
    """

    _ENTRY = "places365"
    _ITEMS = "imgs"

    def __init__(
        self,
        root: Root,
        split: Literal["train-standard", "train-challenge", "val", "test"] = "train-standard",
        small: bool = False,
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = check_choice(split, "split", self._SPLITS)
        self.small = small
        self._part = f"{split}-small" if small else split
        self._open_split(root, split, transform, target_transform, download, loader, **options)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return (UnlabelledSelection if split == "test" else Selection)(reader, split)

    @derived
    def classes(self) -> list[str]:
        """The class names, sorted; `class_to_idx` has their labels."""
        return sorted(self._class_names())

    def __getitem__(self, index: int) -> Pair:
        """Return (image, label)."""
        image, target = self._load(index)
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def _batch_problem(self) -> str:
        # Samples go through `transforms`, which must be the other two.
        both: Any = StandardTransform() if self.transforms is None else self.transforms
        if (
            type(both) is not StandardTransform
            or both.transform is not self.transform
            or both.target_transform is not self.target_transform
        ):
            return "its transforms are not its transform and its target_transform"
        return self._label_problem(Places365Record, self._ITEMS) or self._loader.problem

    def download_devkit(self) -> None:
        """Do nothing: as `download`."""

    def download_images(self) -> None:
        """Do nothing: as `download`."""

    def _member_md5s(self) -> Mapping[str, str]:
        return dict((self._CATEGORIES_META, self._FILE_LIST_META[self.split]))


class StanfordCarsRecord(SplitFilesDataset[TrainTest], SamplesDataset, StanfordCars):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `StanfordCars`, read from records; each split is a record set of its own.

    The host of the dataset is gone. ``download=True`` says how to get the files, or takes them from a mirror
    (`PrepareOptions`).
    """

    _ENTRY = "stanford_cars"


Caltech101Target = Literal["category", "annotation"]


class _Caltech(PathsDataset):
    """`PathsDataset` with ``index`` and ``y``, the number of an image in its class and its label, instead of paths."""

    _ITEMS = "index"
    _IS_RGB = False
    _transforms_apart = True
    _RECIPE: ClassVar[type[recipe.Caltech256]]

    @override
    def _show(self, selection: Selection) -> None:
        super()._show(selection)
        self.root = os.path.expanduser(os.path.join(self.root, self._ENTRY))

    @derived
    def index(self) -> list[int]:
        """The numbers of the images in their classes, from 1."""
        numbers: list[int] = self._selection.array("number").tolist()
        return numbers

    @derived
    def y(self) -> list[int]:
        """The labels."""
        return list_targets(self._selection)

    @derived
    def categories(self) -> list[str]:
        """The class names in the order of their labels."""
        return self._class_names()

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image as it is stored, target)."""
        image: Any = self._image(index)
        return self._transformed(image, self._target(index, image))

    # Any: whatever the user assigned.
    def _target(self, index: int, image: Image.Image) -> Any:
        number = self._as_opened("y", index)
        return self.y[index] if number is None else self._selection.target(number)

    @override
    def _listed(self, field: str, index: int) -> str:
        return os.path.join(self.root, self._file_name(field, self.y[index], self.index[index]))

    def _file_name(self, field: str, label: int, number: int) -> str:
        folder, _ = self._RECIPE.files[field]
        return folder + recipe.image_name(self._RECIPE.image_name, self.categories, label, number)

    @override
    def _stored_at(self, field: str, index: int) -> int | None:
        number = self._as_opened("y", index)
        if number is not None and number == self._as_opened("index", index):
            return self._selection.position(number)
        name = recipe.image_name(self._RECIPE.image_name, self.categories, self.y[index], self.index[index])
        return find_name(self._selection.reader.names, name)

    @override
    def _read_fields(self) -> Sequence[str]:
        return ("image",)


class Caltech101Record(_Caltech, Caltech101):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Caltech101`, read from records: pictures of objects of 101 classes, with their outlines.

    Args:
        target_type: One of, or several of, "category" and "annotation": the points of the object's outline, an array
            [2, n] of x and y from the corner of the object's box.
        transforms: Applied to image and target, instead of the other two; an outline is `KeyPoints` [n, 2] then, in
            pixels of the image.
        transform: Applied to the image, which has the mode of its file.
    """

    _ENTRY = "caltech101"
    _RECIPE = recipe.Caltech101

    def __init__(
        self,
        root: Root,
        target_type: list[Caltech101Target] | Caltech101Target = "category",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        kinds = [target_type] if isinstance(target_type, str) else target_type
        self.target_type = [check_choice(kind, "target_type", ("category", "annotation")) for kind in kinds]
        self._open_split(root, "", transform, target_transform, download, transforms=transforms, **options)

    def _in_pixels(self) -> Sequence[str]:
        return ["target_type 'annotation'"] if "annotation" in self.target_type else []

    @derived
    def annotation_categories(self) -> list[str]:
        """The names of the folders with the outlines, in the order of the labels."""
        return [recipe.ANNOTATIONS.get(name, name) for name in self.categories]

    # Any: a label, an array, or a tuple of them.
    def _target(self, index: int, image: Image.Image) -> Any:
        targets = [
            super(Caltech101Record, self)._target(index, image) if kind == "category" else self._outline(index, image)
            for kind in self.target_type
        ]
        return tuple(targets) if len(targets) > 1 else targets[0]

    # Any: the array that MATLAB wrote, or points.
    def _outline(self, index: int, image: Image.Image) -> Any:
        from scipy.io import loadmat

        def read(data: bytes) -> Any:
            found = loadmat(io.BytesIO(data))  # type: ignore[arg-type,unused-ignore]  # files, too
            outline = found["obj_contour"]
            if not self._transforms_pairs:
                return outline
            top, _, left, _ = found["box_coord"][0]  # where the outline's places begin (the authors' show_annotation.m)
            points = torch.tensor(outline.T + np.array([left, top], float), dtype=torch.float32)
            return with_form("points", points, image)

        return self._loaded("annotation", index, read)

    def _file_name(self, field: str, label: int, number: int) -> str:
        if field == "image":
            return super()._file_name(field, label, number)
        return f"Annotations/{recipe.annotation_name(self.categories[label], number)}"

    def _read_fields(self) -> Sequence[str]:
        return ("image", "annotation") if "annotation" in self.target_type else ("image",)


class Caltech256Record(_Caltech, Caltech256):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Caltech256`, read from records: pictures of 256 classes of objects and one of clutter.

    Args:
        transform: Applied to the image, which has the mode of its file.
    """

    _ENTRY = "caltech256"
    _RECIPE = recipe.Caltech256


_YEARS = ("2017", "2018", "2019", "2021_train", "2021_train_mini", "2021_valid")

INaturalistTarget = Literal["full", "kingdom", "phylum", "class", "order", "family", "genus", "super"]


class INaturalistRecord(CategoryFilesDataset, INaturalist):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `INaturalist`, read from records; each version is a record set of its own.

    The images of a category are sorted by name; torchvision has them in the order of the file system.

    Args:
        version: "2017", "2018", "2019", "2021_train", "2021_train_mini" or "2021_valid".
        target_type: "full" (the category); in 2021 also "kingdom", "phylum", "class", "order", "family" or "genus",
            before "super"; or a list of them.
        loader: Makes an image of a path. Default: a PIL image in the mode that its file has.
    """

    _ENTRY = "inaturalist"
    _ITEMS = "index"
    _FOLDERS = "all_categories"
    _DEFAULT = PillowLoader()

    def __init__(
        self,
        root: Root,
        version: Literal["2017", "2018", "2019", "2021_train", "2021_train_mini", "2021_valid"] = "2021_train",
        target_type: list[INaturalistTarget] | INaturalistTarget = "full",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader | None = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.version = self._part = check_choice(version, "version", _YEARS)
        levels = recipe.LEVELS if version.startswith("2021") else ("super",)
        types = target_type if isinstance(target_type, list) else [target_type]
        self.target_type = [check_choice(kind, "target_type", ("full", *levels)) for kind in types]
        self._open_split(os.path.expanduser(root), "", transform, target_transform, download, loader, **options)
        self.root = os.path.join(self.root, version)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return Selection(reader, next(iter(reader.manifest.splits)))

    @derived
    def index(self) -> list[tuple[int, str]]:
        """The category and the file's name of each image."""
        return list(zip(self._selection.targets().tolist(), self._files(), strict=True))

    @derived
    def all_categories(self) -> list[str]:
        """The folders of the categories."""
        return self._folders()

    @derived
    def categories_index(self) -> dict[str, dict[str, int]]:
        """The number of each name, by level."""
        return self._taxonomy()[0]

    @derived
    def categories_map(self) -> list[dict[str, int]]:
        """The number of each category on each level."""
        return self._taxonomy()[1]

    def _taxonomy(self) -> recipe.Taxonomy:
        return recipe.taxonomy(self.version, self._class_names())

    def _listed(self, index: int) -> tuple[str, int]:
        category, file = self.index[index]
        return os.path.join(self.root, self.all_categories[category], file), category

    def __getitem__(self, index: int) -> Pair:
        """Return (image, target): one target, or a tuple of several."""
        image, category = self._load(index)
        targets = [category if kind == "full" else self._level(kind, index, category) for kind in self.target_type]
        target: Any = tuple(targets) if len(targets) > 1 else targets[0]
        return self._transformed(image, target)

    def _level(self, kind: str, index: int, category: int) -> int:
        number = self._as_opened("index", index)
        if number is None or self._has("categories_map"):
            return self.categories_map[category][kind]
        return int(self._selection.reader.array(kind)[self._selection.position(number)])


class OmniglotRecord(CategoryFilesDataset, Omniglot):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Omniglot`, read from records; each of its two sets is a record set of its own.

    Alphabets, characters and images are sorted by name. In torchvision their order, and with it the labels, depend on
    the file system.

    Args:
        background: The background set (964 characters), or the evaluation set (659 others).
        loader: Makes an image of a path. Default: a grey PIL image of the stored bytes.
    """

    _ENTRY = "omniglot"
    _ITEMS = "_flat_character_images"
    _FOLDERS = "_characters"
    _DEFAULT = PillowLoader("L")

    def __init__(
        self,
        root: Root,
        background: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader | None = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.background = background
        self._part = "background" if background else "evaluation"
        self._open_split(root, "", transform, target_transform, download, loader, **options)
        self.root = os.path.join(self.root, self.folder)
        self.target_folder = os.path.join(self.root, self._get_target_folder())

    @derived
    def _alphabets(self) -> list[str]:
        return list(dict.fromkeys(character.partition("/")[0] for character in self._class_names()))

    @derived
    def _characters(self) -> list[str]:
        return self._folders()

    @derived
    def _flat_character_images(self) -> list[tuple[str, int]]:
        return list(zip(self._files(), self._selection.targets().tolist(), strict=True))

    def _listed(self, index: int) -> tuple[str, int]:
        file, label = self._flat_character_images[index]
        return os.path.join(self.target_folder, self._characters[label], file), label

    def __getitem__(self, index: int) -> Pair:
        """Return (image, label)."""
        return self._transformed(*self._load(index))
