"""Class folders from records: torchvision's EuroSAT, ..., and sets with splits, domains or several targets."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar, Unpack, get_args

import torch
from PIL import Image
from torchvision.datasets import Country211, EuroSAT, ImageFolder, RenderedSST2
from torchvision.datasets.folder import default_loader
from torchvision.datasets.voc import ET_parse
from typing_extensions import override

from recordzoo.base.text import TrainTest, TrainValTest
from recordzoo.datasets.class_folders_recipe import FOLDS, SPLITS
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.folders import ClassFolderDataset, Loader, SamplesDataset, SplitFilesDataset, TargetTypesDataset
from recordzoo.preparing.options import PrepareOptions


class BeansRecord(SplitFilesDataset[TrainValTest], ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Beans, read from records: photographs of bean leaves, healthy or with one of two diseases.

    Each split is a record set of its own.
    """

    _ENTRY = "beans"
    _SPLIT = "split"


class CatsVsDogsRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Cats vs Dogs, read from records: 25,000 photographs that a CAPTCHA asked people to tell apart.

    Some files are damaged. As with all datasets, `on_error` says what is done with a file whose header no decoder
    recognises: it is kept, and taking it raises `ImageError`; ``on_error="skip"`` leaves it out. With
    ``check_images=True`` each image is decoded, and `on_error` holds for every one that cannot be. TensorFlow Datasets
    leaves out more: all 1,738 files that do not begin as JFIF, most of which can be decoded.
    """

    _ENTRY = "cats_vs_dogs"


class CINIC10Record(SplitFilesDataset[TrainValTest], ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """CINIC-10, read from records: the images of CIFAR-10 and 210,000 of ImageNet, all of 32 by 32 pixels.

    The authors' name of the split "val" is "valid".
    """

    _ENTRY = "cinic10"
    _SPLIT = "split"


class PlantVillageRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """PlantVillage, read from records: leaves of 14 plants, healthy or diseased, without augmentation.

    The archive has a 39th class beside the 38 of the first publication: "Background_without_leaves".
    """

    _ENTRY = "plant_village"


class RESISC45Record(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """NWPU-RESISC45, read from records: aerial images of 45 kinds of scenes, 700 of each."""

    _ENTRY = "resisc45"


class UCMercedRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """UC Merced Land Use, read from records: aerial images of 21 kinds of land use, 100 of each."""

    _ENTRY = "uc_merced"


class Country211Record(SplitFilesDataset[Literal["train", "valid", "test"]], ClassFolderDataset, Country211):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Country211`, read from records: photographs by the country in which they were taken."""

    _ENTRY = "country211"
    _HAS_TEXT_ROOT = True
    _PATH = Path


class EuroSATRecord(ClassFolderDataset, EuroSAT):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `EuroSAT`, read from records: 27,000 satellite images of 10 kinds of land use."""

    _ENTRY = "eurosat"
    _HAS_TEXT_ROOT = True


class RenderedSST2Record(SplitFilesDataset[TrainValTest], SamplesDataset, RenderedSST2):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `RenderedSST2`, read from records: sentences as pictures, negative (0) or positive (1)."""

    _ENTRY = "rendered_sst2"
    _split_to_folder = {"train": "train", "val": "valid", "test": "test"}


class DeepWeedsRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """DeepWeeds, read from records: photographs of eight kinds of weeds, or of none ("Negative").

    Args:
        split: "train", "val" or "test" of a fold; "all": every image.
        fold: 0 to 4: one of the authors' five divisions into train, val and test. "all" is the same for each.
    """

    _ENTRY = "deep_weeds"
    _ALLOWS_EMPTY = True

    def __init__(
        self,
        root: Root,
        split: Literal["train", "val", "test", "all"] = "train",
        fold: int = 0,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = check_choice(split, "split", (*SPLITS, "all"))
        if fold not in range(FOLDS):
            raise ArgumentError(f"fold must be 0 to {FOLDS - 1}; it is {fold!r}.")
        self.fold = fold
        name = split if split == "all" else f"{split}{fold}"
        self._open_split(root, name, transform, target_transform, download, loader, **options)


DomainNetDomain = Literal["clipart", "infograph", "painting", "quickdraw", "real", "sketch"]
Domain = TypeVar("Domain", bound=str)
"""The names of the domains, for editors."""


class DomainNetRecord(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """DomainNet, read from records: images of one domain, in the order of the authors' lists (the cleaned version).

    Args:
        domain: "clipart", "infograph", "painting", "quickdraw", "real" or "sketch"; each is a record set of its own.

    Attributes:
        classes: The names of the folders in the order of the authors' numbers, which is not quite alphabetical.
    """

    _ENTRY = "domainnet"
    _ALLOWS_EMPTY = True  # each list of paintings lacks a class

    def __init__(
        self,
        root: Root,
        domain: DomainNetDomain = "real",
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.domain = self._part = check_choice(domain, "domain", get_args(DomainNetDomain))
        self.split = check_choice(split, "split", ("train", "test"))
        self._open_split(root, split, transform, target_transform, download, loader, **options)


class _DomainFolders(ClassFolderDataset, ImageFolder, Generic[Domain]):  # type: ignore[misc]  # torchvision is untyped
    """Images of one domain, or of all; a record set has a split for each domain."""

    _DOMAINS: ClassVar[Sequence[str]]

    def __init__(
        self,
        root: Root,
        domain: Domain | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.domain = None if domain is None else check_choice(domain, "domain", self._DOMAINS)
        split = (self.domain or "").lower().replace("_", "-").replace(" ", "-")  # names of splits have no others
        self._open_split(root, split, transform, target_transform, download, loader, **options)


class PACSRecord(_DomainFolders[Literal["art_painting", "cartoon", "photo", "sketch"]]):
    """PACS, read from records: 7 classes as photographs, paintings, cartoons and sketches.

    Args:
        domain: "art_painting", "cartoon", "photo" or "sketch"; None for all of them, one after another.
    """

    _ENTRY = "pacs"
    _DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


class OfficeHomeRecord(_DomainFolders[Literal["Art", "Clipart", "Product", "Real World"]]):
    """Office-Home, read from records: 65 kinds of things of offices and homes in four domains.

    Args:
        domain: "Art", "Clipart", "Product" or "Real World"; None for all of them, one after another.
    """

    _ENTRY = "office_home"
    _DOMAINS = ("Art", "Clipart", "Product", "Real World")


class Office31Record(_DomainFolders[Literal["amazon", "dslr", "webcam"]]):
    """Office-31, read from records: 31 kinds of things of offices, from a shop's pages and by two cameras.

    Args:
        domain: "amazon", "dslr" or "webcam"; None for all of them, one after another.
    """

    _ENTRY = "office31"
    _DOMAINS = ("amazon", "dslr", "webcam")


class _NamedClasses(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Class folders that are numbers, WNIDs or abbreviations: the names of the classes come from a list."""

    @derived
    def class_names(self) -> list[str]:
        """The names of the classes in the order of the labels: "Air freshener", "Common Eider (Adult male)"."""
        return list(self._selection.reader.manifest.metadata["class_names"])


class ObjectNetRecord(_NamedClasses):
    """ObjectNet, read from records, in ImageFolder's order over ``objectnet-1.0/images``. Its license: only to test on.

    A label is the place of the folder among the sorted ones. `imagenet_labels` says what a model of ImageNet may
    answer: ``prediction in dataset.imagenet_labels[label]``. Images have the red border of 1 pixel that the authors put
    on them; `without_border` is a transform that removes it.

    Args:
        root: Where ``objectnet-1.0/`` is, the extracted tree; or the record set. The zip itself is not read.
        split: "test" for all images, or "imagenet" for those of the classes that ImageNet has. Labels are the same.
        download: Has no use: the error says how to get the tree.

    Raises:
        SourceError: There is the zip, and not the tree.

    Examples:
        >>> dataset = ObjectNetRecord("data", transform=ObjectNetRecord.without_border)
        >>> image, label = dataset[0]
    """

    _ENTRY = "objectnet"
    _ALLOWS_EMPTY = True

    def __init__(
        self,
        root: Root,
        split: Literal["test", "imagenet"] = "test",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = check_choice(split, "split", ("test", "imagenet"))
        self._open_split(root, split, transform, target_transform, download, loader, **options)

    @staticmethod
    def without_border(image: Image.Image) -> Image.Image:
        """Crop the border of 1 pixel."""
        return image.crop((1, 1, image.width - 1, image.height - 1))

    @derived
    def imagenet_labels(self) -> list[list[int]]:
        """The equivalent labels of torchvision's ImageNet for each label; usually none."""
        return [list(labels) for labels in self._selection.reader.manifest.metadata["imagenet_labels"]]


class NABirdsRecord(TargetTypesDataset[TrainTest, Literal["category", "bbox", "parts"]], _NamedClasses):
    """NABirds, read from records: photographs of North American birds, sorted by their paths as ImageFolder has them.

    The authors number 1,011 nodes of a hierarchy, of which 555 have photographs. A label is the place of the class's
    number among those 555; ``int(classes[label])`` is the number, and `node_names` and `parents` tell the rest.

    Args:
        download: Download the archive from a mirror of your own if it is not there. Its authors give it to people who
            accept their terms on a form; the error says how.
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0), "bbox"
            (float32 [4]: x, y, width, height in pixels) or "parts" (float32 [11, 3]: x, y, visible).
    """

    _ENTRY = "nabirds"
    _TARGET_TYPES = ("category", "bbox", "parts")
    _IN_PIXELS = {"bbox": "XYWH", "parts": "seen points"}

    @derived
    def part_names(self) -> list[str]:
        """The names of the parts."""
        return list(self._selection.reader.manifest.metadata["part_names"])

    @derived
    def node_names(self) -> dict[int, str]:
        """The name of each node of the hierarchy, by its number."""
        return dict(self._selection.reader.manifest.metadata["nodes"])

    @derived
    def parents(self) -> dict[int, int]:
        """The number of each node's parent, by the node's number; the root has none."""
        return dict(self._selection.reader.manifest.metadata["parents"])


class OnlineProductsRecord(TargetTypesDataset[TrainTest, Literal["category", "super_category"]], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Stanford Online Products, read from records: photographs of products, in the order of the authors' lists.

    A label is the authors' number of the product, less 1. No product is in both splits: those of "train" are 0 to
    11,317, those of "test" 11,318 to 22,633.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (the product, int from
            0) or "super_category" (its kind, int from 0 to 11).

    Attributes:
        classes: The authors' numbers of all products, of both splits: "1", "2", ...
    """

    _ENTRY = "online_products"
    _TARGET_TYPES = ("category", "super_category")

    @derived
    def super_classes(self) -> list[str]:
        """The kinds of products in the order of their labels: "bicycle"."""
        return self._names_of("super_category")


class StanfordDogsRecord(TargetTypesDataset[TrainTest, Literal["category", "boxes"]], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Stanford Dogs, read from records: photographs of 120 breeds of dogs, in the order of the authors' lists.

    A label is the authors' number of the breed, less 1: the place of its folder ("n02085620-Chihuahua") among the
    sorted ones. ``read(index, "annotation")`` gives the annotation file, XML as that of Pascal VOC.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0) or
            "boxes" (float32 [n, 4], one row a dog: xmin, ymin, xmax, ymax in pixels).
    """

    _ENTRY = "stanford_dogs"
    _TARGET_TYPES = ("category", "boxes")
    _IN_PIXELS = {"boxes": "XYXY"}
    _FIELDS = {"boxes": "annotation"}

    def _target(self, kind: str, position: int) -> torch.Tensor:
        root = ET_parse(io.BytesIO(self._selection.reader.read("annotation", position))).getroot()
        sides = ("xmin", "ymin", "xmax", "ymax")
        boxes = [[float(box.findtext(side)) for side in sides] for box in root.iter("bndbox")]
        return torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)


class TinyImageNetRecord(TargetTypesDataset[TrainValTest, Literal["category", "bbox"]], _NamedClasses):
    """Tiny ImageNet, read from records: images of 64 by 64 pixels, sorted by their paths.

    A label is the place of the WNID among the sorted ones, as ImageFolder has it; ``wnids.txt`` is not sorted. The
    labels of "test" were never published: they are -1.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (int from 0) or "bbox"
            (float32 [4]: xmin, ymin, xmax, ymax in pixels; not for "test").

    Raises:
        ArgumentError: "bbox" is asked for with "test".
    """

    _ENTRY = "tiny_imagenet"
    _TARGET_TYPES = ("category", "bbox")
    _IN_PIXELS = {"bbox": "XYXY"}

    @override
    def _choose_targets(self, target_type: str | Sequence[str]) -> None:
        super()._choose_targets(target_type)
        if self.split == "test" and "bbox" in self._target_types:
            raise ArgumentError("The authors published no boxes for split='test'. Take target_type='category'.")
