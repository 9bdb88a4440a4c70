"""`ImageNetRecord`: ImageNet, ILSVRC2012."""

import functools
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from torchvision.datasets import ImageNet
from torchvision.datasets.folder import default_loader

from recordzoo.base.text import TrainVal
from recordzoo.datasets.imagenet_forms import DEVKIT, META_BIN, read_meta
from recordzoo.datasets.imagenet_recipe import synonyms_metadata
from recordzoo.errors import SourceError
from recordzoo.families.base import Root, Transform, check_choice, derived
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions

SPLITS = ("train", "val")

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
        self.split = self._part = check_choice(split, "split", SPLITS)
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
    names = _single_names(wnids)
    try:
        meta = read_meta(root)
        found = synonyms_metadata(wnids, meta.synonyms if meta is not None else {}).get("synonyms")
    except SourceError as err:
        found = None
        problem = str(err)
    else:
        problem = f"neither {META_BIN} nor {DEVKIT} of these classes is in {root}."
    if found is not None:
        return [tuple(names) for names in found]
    _warn_once(
        f"ImageNet: {problem} Each class has one name ({names[0] if names else ''!r}) instead of torchvision's tuple "
        "of all."
    )
    return [(name,) for name in names]


@functools.cache
def _warn_once(text: str) -> None:
    """Log a warning, once a process."""
    logger.warning("%s", text)


def _single_names(wnids: Sequence[str]) -> Sequence[str]:
    # Private, but the only list that everybody has; its order is that of the sorted WNIDs.
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    return _IMAGENET_CATEGORIES if len(wnids) == len(_IMAGENET_CATEGORIES) else wnids
