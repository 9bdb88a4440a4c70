"""ImageNet (ILSVRC2012), and the test sets for its models: ImageNetV2, ImageNet-A, -C, -O, -R, -ReaL and -Sketch."""

import functools
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Unpack

from torchvision.datasets import ImageFolder, ImageNet
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.base.text import TrainVal
from recordzoo.datasets.cifar_mnist import check_severity
from recordzoo.datasets.imagenet_recipe import DEVKIT, META_BIN, all_wnids, read_meta, synonyms_metadata
from recordzoo.errors import SourceError
from recordzoo.families.base import Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.families.selection import Selection, ValueSelection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader

logger = logging.getLogger("recordzoo")


class ImageNetRecord(ClassFolderDataset, ImageNet):  # type: ignore[misc]  # torchvision is untyped
    """ImageNet (ILSVRC2012): 1,281,167 training or 50,000 validation photographs of 1,000 classes.

    The raw data is under `root`, in one of these forms. Only what the split needs has to be there.

    * The official archives: ``ILSVRC2012_img_train.tar`` for training; ``ILSVRC2012_img_val.tar`` and
      ``ILSVRC2012_devkit_t12.tar.gz`` for validation.
    * A tree: the folders ``train/<wnid>/``, ``val/<wnid>/`` that torchvision extracts.
    * Kaggle's ``imagenet-object-localization-challenge.zip``, or what is in it: ``ILSVRC/``, ``LOC_val_solution.csv``.
    * The shards of Hugging Face's ILSVRC/imagenet-1k, ``data/train-00000-of-00294.parquet``, ...; they need pyarrow
      (``recordzoo[formats]``).

    All give the same samples in the same order. Labels are places in the sorted WNIDs that are there. Of an incomplete
    form, preparing warns, and says what is missing.

    Args:
        download: Fetch what is missing: from a mirror (`mirror`, ``RECORDZOO_MIRROR``), or with ``accept_terms=True``
            from image-net.org.
        is_valid_file: Takes the path of an image, and says whether it is a sample.
        allow_empty: Whether a class may be without samples.

    Attributes:
        classes: For each label a tuple of names; of one name where neither the development kit nor ``meta.bin`` nor
            Kaggle's ``LOC_synset_mapping.txt`` was there (which is logged once).
        class_to_idx: The label of each name; of two classes with the same name ("crane"), the later, as in torchvision.

    Raises:
        TermsError: It could only come from image-net.org, whose terms were not accepted; the text says what to do.

    Examples:
        >>> from recordzoo import ImageNetRecord
        >>> train = ImageNetRecord("data", split="train")  # doctest: +SKIP
    """

    _ENTRY = "imagenet"

    def __init__(
        self,
        root: Root,
        split: TrainVal = "train",
        *,
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = self._part = check_choice(split, "split", ("train", "val"))
        self._start(os.path.expanduser(os.fspath(root)), transform=transform, target_transform=target_transform)
        reader = self._open_part(download=download, options=options)
        self._show_files(Selection(reader), self.split_folder, loader, is_valid_file, allow_empty)
        if "synonyms" not in reader.manifest.metadata:
            _names_of(self._class_names(), Path(self.root))  # raises now if something is missing

    @derived
    def wnids(self) -> list[str]:
        """The WNIDs in the order of their labels."""
        return self._class_names()

    @derived
    def wnid_to_idx(self) -> dict[str, int]:
        """The label of each WNID."""
        return {wnid: label for label, wnid in enumerate(self._class_names())}

    @derived
    def classes(self) -> list[tuple[str, ...]]:  # type: ignore[override]  # torchvision's are tuples here
        """The names of each label, as a tuple."""
        stored = self._selection.reader.manifest.metadata.get("synonyms")
        if stored is None:
            return _names_of(self._class_names(), Path(self.root))
        return [tuple(names) for names in stored]

    @derived
    def class_to_idx(self) -> dict[str, int]:
        """The label of each name."""
        return {name: label for label, names in enumerate(self._first_classes()) for name in names}


def _names_of(wnids: Sequence[str], root: Path) -> list[tuple[str, ...]]:
    """Find the classes' names, when the record set does not have them, and say so if they are not torchvision's."""
    meta, problem = None, f"neither {META_BIN} nor {DEVKIT} of these classes is in {root}."
    try:
        meta = read_meta(root)
    except SourceError as err:
        problem = str(err)
    if found := synonyms_metadata(wnids, meta.synonyms if meta is not None else {}):
        return [tuple(names) for names in found["synonyms"]]
    # Private, but the only list that everybody has; its order is that of the sorted WNIDs.
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    names = _IMAGENET_CATEGORIES if len(wnids) == len(_IMAGENET_CATEGORIES) else wnids
    _warn_once(
        f"ImageNet: {problem} Each class has one name ({names[0] if names else ''!r}) instead of torchvision's tuple "
        "of all."
    )
    return [(name,) for name in names]


@functools.cache
def _warn_once(text: str) -> None:
    """Log a warning, once a process."""
    logger.warning("%s", text)


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
        self.version = check_choice(version, "version", ("matched-frequency", "threshold-0.7", "top-images"))
        self._part = version.replace(".", "-")  # names of parts have no dots
        self._open_split(root, "", transform, target_transform, download, loader, **options)

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
        parts = catalogue.entry(self._ENTRY).parts
        part_of = {name: part.name for part in parts for name in part.layout.folders.values()}
        self.corruption = check_choice(corruption, "corruption", tuple(part_of))
        self.severity = check_severity(severity)
        self._part = part_of[corruption]
        self._open_split(root, corruption.replace("_", "-"), transform, target_transform, download, loader, **options)

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
