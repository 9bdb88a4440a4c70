"""Test sets for models of ImageNet: `ImageNetV2Record` and those named -A, -C, -O, -R, -ReaL and -Sketch.

torchvision has no classes for them. Each class here reads the extracted archive like ImageFolder, as the authors do.
"""

from typing import Literal, Unpack

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.datasets.cifar import check_severity
from recordzoo.datasets.imagenet_forms import all_wnids
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.families.selection import Selection, ValueSelection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader


class ImageNetV2Record(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """ImageNetV2: three test sets of 10,000 photographs of ImageNet's 1,000 classes; each is a record set of its own.

    Labels are ImageNet's: the numbers that the class folders are named by. (ImageFolder sorts these as text, 0, 1, 10,
    100, and so gives most images a wrong label.) The order of samples is ImageFolder's.

    Args:
        version: "matched-frequency", "threshold-0.7" or "top-images".
    """

    _ENTRY = "imagenet_v2"
    _ALLOWS_EMPTY = True

    def __init__(
        self,
        root: Root,
        version: Literal["matched-frequency", "threshold-0.7", "top-images"] = "matched-frequency",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self.version = check_choice(version, "version", ("matched-frequency", "threshold-0.7", "top-images"))
        self._part = version.replace(".", "-")  # names of parts have no dots
        self._show_split("", download=download, options=options, loader=loader)

    @derived
    def wnids(self) -> list[str]:
        """The WNID of each label."""
        return list(all_wnids())


class _WnidFolders(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """A test set whose class folders are named by WNIDs."""

    @derived
    def wnids(self) -> list[str]:
        """The WNID of each label: `classes`."""
        return self._class_names()

    @derived
    def imagenet_labels(self) -> list[int]:
        """ImageNet's label (of 1,000) for each label; the same number if there is a folder of each class."""
        label_of = {wnid: label for label, wnid in enumerate(all_wnids())}
        return [label_of[wnid] for wnid in self.wnids]


class ImageNetARecord(_WnidFolders):
    """ImageNet-A: 7,500 photographs of 200 classes of ImageNet that a ResNet-50 got wrong.

    Labels are 0 to 199, the places of the WNIDs among these 200. The makers' eval.py uses them so, and compares them
    with the 200 outputs of these classes: ``model(images)[:, dataset.imagenet_labels]``.
    """

    _ENTRY = "imagenet_a"


class ImageNetORecord(_WnidFolders):
    """ImageNet-O: 2,000 photographs of things that are in no class of ImageNet, to detect as such.

    The folder of an image, and so its label, 0 to 199, is not what the image shows: it is a class of ImageNet that a
    model took it for. The makers' eval_many_models.py makes no use of the label. It compares the confidence of the 200
    outputs ``model(images)[:, dataset.imagenet_labels]`` with that for ImageNet's validation images of these classes.
    """

    _ENTRY = "imagenet_o"


class ImageNetRRecord(_WnidFolders):
    """ImageNet-R: 30,000 renditions (art, cartoons, toys, sketches, ...) of 200 classes of ImageNet.

    Labels are 0 to 199, the places of the WNIDs among these 200, which are not those of ImageNet-A. The makers' eval.py
    uses them so, and compares them with the 200 outputs of these classes:
    ``model(images)[:, dataset.imagenet_labels]``.
    """

    _ENTRY = "imagenet_r"


class ImageNetSketchRecord(_WnidFolders):
    """ImageNet-Sketch: 50,889 black and white sketches of ImageNet's 1,000 classes.

    Labels are the places of the sorted WNIDs: ImageNet's, as in the makers' scripts/sketchPath.txt.
    """

    _ENTRY = "imagenet_sketch"


class ImageNetCRecord(_WnidFolders):
    """ImageNet-C: the 50,000 validation images of ImageNet, with 19 corruptions in five severities each.

    Labels are ImageNet's. Each of the five archives is a record set of its own.

    Args:
        corruption: "gaussian_noise", "fog", ...: one of the 15 of the benchmark and 4 more.
        severity: 1 to 5; None for all of them, one after another.
    """

    _ENTRY = "imagenet_c"

    def __init__(
        self,
        root: Root,
        corruption: str = "gaussian_noise",
        severity: int | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        parts = catalogue.entry(self._ENTRY).parts
        part_of = {name: part.name for part in parts for name in part.layout.folders.values()}
        self.corruption = check_choice(corruption, "corruption", tuple(part_of))
        self.severity = check_severity(severity)
        self._part = part_of[corruption]
        self._show_split(corruption.replace("_", "-"), download=download, options=options, loader=loader)

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        if self.severity is None:
            return Selection(reader, split)
        positions = reader.split(split)
        return Selection(reader, positions=positions[reader.array("severity")[positions] == self.severity])


class ImageNetReaLRecord(_WnidFolders):
    """ImageNet-ReaL: the 50,000 validation images of ImageNet, each with a list of all labels that fit it.

    The lists of 3,163 images are empty: the authors leave these out. For the others, a model is right if
    ``prediction in target``. The raw data is ``real.json``, and ``ILSVRC2012_img_val.tar`` or the folder ``val/`` that
    torchvision extracts. The order is that of the names of files, which is not `ImageNetRecord`'s.
    """

    _ENTRY = "imagenet_real"
    _ALLOWS_EMPTY = True

    @override
    def _selection_of(self, reader: RecordReader, split: str) -> Selection:
        return ValueSelection(reader, split)

    @override
    def _class_names(self) -> list[str]:
        return list(all_wnids())
