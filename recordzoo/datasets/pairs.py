"""Images whose targets are files, from records: ADE20K, Cityscapes, DIV2K, KITTI, Oxford-IIIT Pet, Pascal VOC, SBD."""

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from PIL import Image
from scipy.io import loadmat
from torchvision.datasets import Cityscapes, Kitti, OxfordIIITPet, SBDataset, VOCDetection, VOCSegmentation
from torchvision.datasets.utils import iterable_to_str
from torchvision.datasets.vision import VisionDataset
from torchvision.datasets.voc import ET_parse
from typing_extensions import override

from recordzoo.base.text import TrainVal, public_url
from recordzoo.datasets import pairs_recipe as recipe
from recordzoo.families.base import Pair, Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.files import Files, PairsDataset, PathsDataset, SplitPairsDataset, TargetPathsDataset
from recordzoo.families.selection import list_targets
from recordzoo.images.decode import decode_rgb
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.recipe import open_image


class ADE20KRecord(SplitPairsDataset[TrainVal], TargetPathsDataset, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """ADE20K's Scene Parsing Benchmark, read from records. A mask is a PIL image.

    In a mask, 0 is no class, and n is the class `classes[n - 1]`.
    """

    _ENTRY = "ade20k"
    _TARGET = "mask"

    @derived
    def classes(self) -> list[str]:
        """The names of the classes."""
        return list(self._selection.reader.manifest.metadata["classes"])


Track = Literal[
    "bicubic_x2",
    "bicubic_x3",
    "bicubic_x4",
    "bicubic_x8",
    "unknown_x2",
    "unknown_x3",
    "unknown_x4",
    "mild_x4",
    "difficult_x4",
]


class DIV2KRecord(TargetPathsDataset, VisionDataset):  # type: ignore[misc]  # torchvision is untyped
    """DIV2K, read from records: pairs of a photograph in low resolution and the same one in high resolution.

    Each split of a track is a record set of its own, with the images of high resolution in it. The track "wild", with
    four images of low resolution for each of high resolution, is left out.

    Args:
        track: How the images of low resolution were made, and how many times smaller they are: "bicubic_x2", ...
    """

    _ENTRY = "div2k"
    _TARGET = "high"

    def __init__(
        self,
        root: Root,
        split: TrainVal = "train",
        track: Track = "bicubic_x2",
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = check_choice(split, "split", ("train", "val"))
        self.track = check_choice(track, "track", tuple(recipe.TRACKS))
        self._part = recipe.part_of(split, track)
        self._ENDING = recipe.TRACKS[track][1]  # type: ignore[misc]  # of each name, not of all tracks' names
        self._open_split(root, split, transform, target_transform, download, transforms=transforms, **options)
        self._files = self._recipe_files(image="images", high="targets")

    def _load_target(self, data: bytes) -> Image.Image:
        return decode_rgb(data)


class KittiRecord(PairsDataset, Kitti):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Kitti`, read from records. Training and test images are a record set each.

    Samples are sorted by file name; torchvision has the order in which the file system lists them.

    Args:
        train: The training images with their labels; otherwise the test images, whose target is None.
    """

    _ENTRY = "kitti"
    _TARGET = "label"
    _IS_RGB = False

    def __init__(
        self,
        root: Root,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.train = train
        self._part = "train" if train else "test"
        self._open_split(root, self._part, transform, target_transform, download, transforms=transforms, **options)
        self._files = self._recipe_files(image="images", label="targets")

    def _in_pixels(self) -> Sequence[str]:
        return ["the target"] if self.train else []

    @property
    def _raw_folder(self) -> str:
        return os.path.join(self.root, "Kitti", "raw")  # torchvision's has the name of the class in it

    @derived
    def targets(self) -> list[str]:
        """The paths of the label files; none of the test images."""
        return self._paths("label") if self.train else []

    # Any: a list of dicts, or None.
    @override
    def _target(self, index: int) -> Any:
        return super()._target(index) if self.train else None

    @override
    def _load_target(self, data: bytes) -> Any:
        return [_parsed(line) for line in csv.reader(io.StringIO(data.decode()), delimiter=" ")]


# Any: strings, numbers and lists of numbers.
def _parsed(line: list[str]) -> dict[str, Any]:
    """Read a line of a label file; the development kit's readme has its columns."""
    numbers = list(map(float, line[1:15]))
    return {
        "type": line[0],
        "truncated": numbers[0],
        "occluded": int(line[2]),
        "alpha": numbers[2],
        "bbox": numbers[3:7],
        "dimensions": numbers[7:10],
        "location": numbers[10:13],
        "rotation_y": numbers[13],
    }


class SBDatasetRecord(PairsDataset, SBDataset):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `SBDataset`, read from records.

    "train_noval" is a record set of its own, with the same images: its list comes from another address, which often
    fails.

    Args:
        image_set: "train", "val", or "train_noval": the images that are not in VOC 2012's validation set.
        mode: "boundaries", an array [20, H, W], or "segmentation", a PIL image.
    """

    _ENTRY = "sbd"
    _TARGET = "mask"
    _loadmat = staticmethod(loadmat)

    def __init__(
        self,
        root: Root,
        image_set: Literal["train", "val", "train_noval"] = "train",
        mode: Literal["boundaries", "segmentation"] = "boundaries",
        download: bool = False,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.image_set = check_choice(image_set, "image_set", ("train", "val", "train_noval"))
        self.mode = check_choice(mode, "mode", ("segmentation", "boundaries"))
        self.num_classes = 20
        split = recipe.split_name(image_set)
        self._part = split if image_set == "train_noval" else "all"
        self._listed_in = f"{image_set}.txt"
        self._open_split(root, split, download=download, transforms=transforms, **options)
        self._files = self._recipe_files(image="images", mask="masks")

    @derived
    def masks(self) -> list[str]:
        """The paths of the .mat files."""
        return self._paths("mask")

    # Any: an image or an array; SciPy reads the file from memory.
    def _load_target(self, data: bytes) -> Any:
        read = self._get_segmentation_target if self.mode == "segmentation" else self._get_boundaries_target
        return read(io.BytesIO(data))


CityscapesTarget = Literal["instance", "semantic", "polygon", "color"]


class CityscapesRecord(PairsDataset, Cityscapes):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Cityscapes`, read from records.

    There are three record sets, each with its images: of the fine annotations, of the coarse ones of the same images,
    and of the coarse ones of `train_extra`. The archives are got by hand: see ``recordzoo info cityscapes``. A tree
    needs no other splits than those that are opened. A target that was missing is an error when its sample is read.

    Args:
        root: Where ``leftImg8bit/`` and ``gtFine/`` or ``gtCoarse/``, or their archives, are; or the record set.
        split: "train", "test" or "val"; of coarse annotations "train", "train_extra" or "val".
        mode: "fine" or "coarse".
        target_type: One of, or several of, "instance", "semantic", "polygon" and "color".
        download: Fetch archives that are missing from a mirror of your own (`mirror`, ``RECORDZOO_MIRROR``).
    """

    _ENTRY = "cityscapes"
    _ENDING = recipe.CITYSCAPES_ENDING

    def __init__(
        self,
        root: Root,
        split: Literal["train", "test", "train_extra", "val"] = "train",
        mode: Literal["fine", "coarse"] = "fine",
        target_type: list[CityscapesTarget] | CityscapesTarget = "instance",
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        *,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.mode = "gtFine" if mode == "fine" else "gtCoarse"
        folders = os.path.join(recipe.CITYSCAPES_IMAGES, split), os.path.join(self.mode, split)
        check_choice(mode, "mode", ("fine", "coarse"))
        valid = ("train", "test" if mode == "fine" else "train_extra", "val")
        message = f"Unknown value '{split}' for argument split if mode is '{mode}'. "
        message += f"Valid values are {{{iterable_to_str(valid)}}}."
        self.split = check_choice(split, "split", valid, message)
        self.target_type = target_type if isinstance(target_type, list) else [target_type]
        for kind in self.target_type:
            check_choice(kind, "target_type", ("instance", "semantic", "polygon", "color"))
        self._part = "extra" if split == "train_extra" else mode
        self._listed_in = f"{recipe.CITYSCAPES_IMAGES}/{split}/ or {self.mode}/{split}/"
        shown = recipe.split_name(split)
        self._open_split(root, shown, transform, target_transform, download, transforms=transforms, **options)
        self.images_dir, self.targets_dir = (os.path.join(self.root, folder) for folder in folders)
        self._kinds: list[str] = list(self.target_type)  # those of `targets`
        base = os.fspath(self.root)
        targets: dict[str, Files] = {
            kind: Files("targets", os.path.join(base, self.mode), f"_{self.mode}_{recipe.CITYSCAPES_SUFFIXES[kind]}")
            for kind in self._kinds
        }
        images = Files("images", os.path.join(base, recipe.CITYSCAPES_IMAGES), recipe.CITYSCAPES_ENDING)
        self._files = {"image": images, **targets}

    @derived
    def targets(self) -> list[list[str]]:
        """The paths of the targets of each image, in the order of `target_type`."""
        rows: list[list[str]] = [[] for _ in range(len(self._selection))]
        for kind in self._kinds:
            for row, path in zip(rows, self._paths(kind), strict=True):
                row.append(path)
        return rows

    # Any: a path.
    def _path_at(self, field: str, index: int) -> Any:
        path = super()._path_at(field, index)
        return path if field == "image" else path[self._kinds.index(field)]

    # Any: images or the dicts of polygons: one, or a tuple of several.
    @override
    def _target(self, index: int) -> Any:
        targets = [
            self._loaded(kind, index, json.loads if kind == "polygon" else open_image) for kind in self.target_type
        ]
        return tuple(targets) if len(targets) > 1 else targets[0]


PetTarget = Literal["category", "binary-category", "segmentation"]


class OxfordIIITPetRecord(PathsDataset, OxfordIIITPet):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `OxfordIIITPet`, read from records.

    Args:
        target_types: One of, or several of, "category" (37 breeds), "binary-category" (cat or dog) and
            "segmentation" (a trimap as a PIL image).
    """

    _ENTRY = "oxford_pets"
    _ITEMS = "_images"
    _PATH = Path
    _transforms_pairs = True
    _target_types: list[str]

    def __init__(
        self,
        root: Root,
        split: Literal["trainval", "test"] = "trainval",
        target_types: Sequence[PetTarget] | PetTarget = "category",
        transforms: Transform = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ("trainval", "test"))
        types = [target_types] if isinstance(target_types, str) else target_types
        self._target_types = [check_choice(kind, "target_types", self._VALID_TARGET_TYPES) for kind in types]
        self._listed_in = f"annotations/{split}.txt"
        self._open_split(root, split, transform, target_transform, download, transforms=transforms, **options)
        self._files = self._recipe_files(image="_images", mask="_segs")
        self.bin_classes = ["Cat", "Dog"]
        self.bin_class_to_idx = {"Cat": 0, "Dog": 1}

    def _in_pixels(self) -> Sequence[str]:
        return ["target_types 'segmentation'"] if "segmentation" in self._target_types else []

    @derived
    def _images(self) -> list[Path]:
        return self._paths("image")

    @derived
    def _segs(self) -> list[Path]:
        return self._paths("mask")

    @derived
    def _labels(self) -> list[int]:
        return list_targets(self._selection)

    @derived
    def _bin_labels(self) -> list[int]:
        species: list[int] = self._selection.array("species").tolist()
        return species

    @derived
    def classes(self) -> list[str]:
        """The names of the split's breeds, in the order of their labels."""
        stems = (name.rpartition("_")[0] for name in self._selection.names())
        label_of = dict(zip(stems, list_targets(self._selection), strict=True))
        return [" ".join(map(str.title, stem.split("_"))) for stem in sorted(label_of, key=lambda s: label_of[s])]

    # Any: a label or an image; or a tuple of them, or None.
    def __getitem__(self, idx: int) -> Pair:
        """Return (RGB PIL image, target): one target, a tuple of several, or None."""
        image: Any = self._image(idx)
        targets = [self._target(kind, idx) for kind in self._target_types]
        target: Any = tuple(targets) if len(targets) > 1 else targets[0] if targets else None
        return self._transformed(image, target)

    # Any: as above.
    def _target(self, kind: str, idx: int) -> Any:
        if kind == "segmentation":
            return self._loaded("mask", idx, open_image)
        attribute, field = ("_labels", "target") if kind == "category" else ("_bin_labels", "species")
        number = self._as_opened(attribute, idx)
        if number is None:
            return getattr(self, attribute)[idx]
        return int(self._selection.reader.array(field)[self._selection.position(number)])

    def _read_fields(self) -> Sequence[str]:
        return ["image", "mask"] if "segmentation" in self._target_types else ["image"]


_YEARS = [str(year) for year in range(2007, 2013)]


class _VOCRecord(TargetPathsDataset):
    """What both classes share: `images` and `targets`, paths that torchvision would use, existing or not."""

    _ENTRY = "voc"
    _PREFIX = recipe.voc_image("").removesuffix(".jpg")
    _SPLITS_DIR: str

    def __init__(
        self,
        root: Root,
        year: Literal["2007", "2008", "2009", "2010", "2011", "2012"] = "2012",
        image_set: Literal["train", "trainval", "val", "test"] = "train",
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.year = check_choice(year, "year", _YEARS)
        valid = ["train", "trainval", "val", *(["test"] if year == "2007" else [])]
        self.image_set = check_choice(image_set, "image_set", valid)
        self._part = "2007-test" if image_set == "test" else year
        archive = dataset_recipe(self._ENTRY, self._part, self.raw_files).raw_files[0]
        self.url, self.filename, self.md5 = public_url(next(iter(archive.urls), "")), archive.name, archive.md5
        split = recipe.voc_split(self._SPLITS_DIR, image_set)
        self._listed_in = recipe.voc_list(split)
        self._open_split(root, split, transform, target_transform, download, transforms=transforms, **options)
        self._files = self._recipe_files(image="images", **{self._TARGET: self._target_attribute()})

    def _target_attribute(self) -> str:
        """Return the attribute with the paths of the targets: torchvision's other name for it, if overridden."""
        return "targets"


class VOCDetectionRecord(_VOCRecord, VOCDetection):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `VOCDetection`, read from records.

    A tree needs no other lists than those that are opened. A listed file that is missing is logged when the records are
    prepared, and is an error when its sample is read.

    Args:
        year: "2007" to "2012".
        image_set: "train", "val" or "trainval"; "test" for 2007.
        target_transform: Applied to the annotation.
    """

    _TARGET = "annotation"

    def _target_attribute(self) -> str:
        return "targets" if type(self).annotations is VOCDetection.annotations else "annotations"

    # Any: a nested dict.
    def _load_target(self, data: bytes) -> Any:
        return self.parse_voc_xml(ET_parse(io.BytesIO(data)).getroot())


class VOCSegmentationRecord(_VOCRecord, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `VOCSegmentation`, read from the same records as `VOCDetectionRecord`, which see.

    Args:
        year: "2007" to "2012".
        image_set: "train", "val" or "trainval"; "test" for 2007.
    """

    _TARGET = "mask"

    def _target_attribute(self) -> str:
        return "targets" if type(self).masks is VOCSegmentation.masks else "masks"
