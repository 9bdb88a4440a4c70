"""`ImageNetV2Record`, `ImageNetARecord`, `ImageNetORecord`, `ImageNetRRecord`, `ImageNetSketchRecord`: test sets.

torchvision has no classes for them. Each class here is ImageFolder of the extracted archive, as their makers read it.
"""

from typing import Literal, Unpack

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader

from recordzoo.datasets.imagenet_meta import all_wnids
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.class_folder import ClassFolderDataset
from recordzoo.families.derived import derived
from recordzoo.families.path_loader import Loader
from recordzoo.preparing import PrepareOptions


class ImageNetV2Record(ClassFolderDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """ImageNetV2: three test sets of 10,000 photographs of ImageNet's 1,000 classes; each is a record set of its own.

    Labels are ImageNet's: the numbers that the class folders are named by. (ImageFolder sorts these as text, 0, 1, 10,
    100, and so gives most images a wrong label.) The order of samples is ImageFolder's.

    Args:
        version: "matched-frequency", "threshold-0.7" or "top-images".

    Attributes:
        classes: "0" to "999".
        wnids: The WNID of each label.

    Examples:
        >>> dataset = ImageNetV2Record("data", "top-images")
        >>> image, label = dataset[0]
    """

    entry = "imagenet_v2"
    _PATH = str
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

    _PATH = str

    @derived
    def wnids(self) -> list[str]:
        """The WNID of each label: `classes`."""
        return self._class_names()

    @derived
    def imagenet_labels(self) -> list[int]:
        """Which of ImageNet's 1,000 labels each label is."""
        label_of = {wnid: label for label, wnid in enumerate(all_wnids())}
        return [label_of[wnid] for wnid in self.wnids]


class ImageNetARecord(_WnidFolders):
    """ImageNet-A: 7,500 photographs of 200 classes of ImageNet that a ResNet-50 got wrong.

    Labels are 0 to 199, the places of the WNIDs among these 200. The makers' eval.py uses them so, and compares them
    with the 200 outputs of these classes: ``model(images)[:, dataset.imagenet_labels]``.

    Attributes:
        wnids: The WNID of each label: `classes`.
        imagenet_labels: Which of ImageNet's 1,000 labels each label is.
    """

    entry = "imagenet_a"


class ImageNetORecord(_WnidFolders):
    """ImageNet-O: 2,000 photographs of things that are in no class of ImageNet, to detect as such.

    The folder of an image, and so its label, 0 to 199, is not what the image shows: it is a class of ImageNet that a
    model took it for. The makers' eval_many_models.py makes no use of the label. It compares the confidence of the 200
    outputs ``model(images)[:, dataset.imagenet_labels]`` with that for ImageNet's validation images of these classes.

    Attributes:
        wnids: The WNID of each label: `classes`.
        imagenet_labels: Which of ImageNet's 1,000 labels each label is.
    """

    entry = "imagenet_o"


class ImageNetRRecord(_WnidFolders):
    """ImageNet-R: 30,000 renditions (art, cartoons, toys, sketches, ...) of 200 classes of ImageNet.

    Labels are 0 to 199, the places of the WNIDs among these 200, which are not those of ImageNet-A. The makers' eval.py
    uses them so, and compares them with the 200 outputs of these classes:
    ``model(images)[:, dataset.imagenet_labels]``.

    Attributes:
        wnids: The WNID of each label: `classes`.
        imagenet_labels: Which of ImageNet's 1,000 labels each label is.
    """

    entry = "imagenet_r"


class ImageNetSketchRecord(_WnidFolders):
    """ImageNet-Sketch: 50,889 black and white sketches of ImageNet's 1,000 classes.

    Labels are the places of the sorted WNIDs: ImageNet's, as in the makers' scripts/sketchPath.txt.

    Attributes:
        wnids: The WNID of each label: `classes`.
        imagenet_labels: Which of ImageNet's labels each label is: itself, if all class folders are there.
    """

    entry = "imagenet_sketch"
