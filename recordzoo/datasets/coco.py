"""COCO's images from records: torchvision's classes over annotation files, and those with masks or LVIS's objects."""

import contextlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import CocoCaptions, CocoDetection, VisionDataset, VOCSegmentation
from torchvision.datasets.folder import pil_loader
from torchvision.tv_tensors import Mask
from typing_extensions import override

from recordzoo.base.text import TrainVal
from recordzoo.datasets.coco_recipe import CATEGORIES
from recordzoo.families.annotated import AnnotatedDataset
from recordzoo.families.base import Root, Transform, derived
from recordzoo.families.files import Files, SplitPairsDataset
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.recipe import open_image


class CocoDetectionRecord(AnnotatedDataset, CocoDetection):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CocoDetection`, read from records.

    The record set lies beside the folder of the images, ``val2017.records`` beside ``val2017/``, and serves all
    annotation files. ``recordzoo prepare coco.val2017`` makes it of the authors' archives or of their tree, and stores
    their annotation files in it: then neither images nor annotation files are needed on the disk. Any other folder is
    prepared by opening it.

    An annotation file is read from the disk if it is there, else from the record set, by its name.

    Args:
        root: The folder of the images, existing or not; or the record set.
        annFile: The annotation file. Default: the ``instances`` (of test images: ``image_info``) of the record set.
        target_transform: Applied to the annotations.
        download: Download the archives of a folder that is called ``train2017``, ``val2017``, ... into the folder above
            it, if neither is there.
        **options: See `PrepareOptions`. There are no smaller variants: boxes and masks are in pixels of the originals.

    Raises:
        ImportError: pycocotools is not installed.
        ArgumentError: There is no default for `annFile`.
        FileNotFoundError: `annFile` is neither on the disk nor in the record set.
        FolderError, NotPreparedError: There are no records and no images.

    Examples:
        >>> dataset = CocoDetectionRecord("data/val2017", "annotations/instances_val2017.json")  # doctest: +ELLIPSIS
        loading annotations into memory...
        >>> image, annotations = dataset[0]
    """

    _transforms_pairs = True

    _ENTRY = "coco"
    _USUAL = ("instances_{part}.json", "image_info_{part}.json")
    _HAS_PIXELS = True  # whether annotations have places in the image

    def __init__(
        self,
        root: Root,
        annFile: Root | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        *,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        _reader_of_annotations()  # if it is missing, raise before a download
        self._open_annotated(annFile, pil_loader, download=download, options=options)

    def _in_pixels(self) -> Sequence[str]:
        return ["the target"] if self._HAS_PIXELS else []

    # Any: a COCO object and a list.
    def _parse(self, path: str) -> dict[str, Any]:
        coco = _reader_of_annotations()(path)
        return {"coco": coco, "ids": sorted(coco.imgs)}

    # Any: what pickle kept.
    def __setstate__(self, state: Mapping[str, Any]) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # otherwise each worker process prints the same
            super().__setstate__(state)

    def _image_path(self, id: int) -> str:
        return os.path.join(self._loader.folder, self.coco.loadImgs(id)[0]["file_name"])

    def _load_image(self, id: int) -> Image.Image:
        image: Image.Image = self._loader(self._image_path(id))
        return image


class CocoCaptionsRecord(CocoDetectionRecord, CocoCaptions):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CocoCaptions`, read from the same records as `CocoDetectionRecord`: see there.

    Records of a smaller variant fit captions, too.

    Args:
        annFile: The annotation file. Default: the ``captions`` (of test images: ``image_info``) of the record set.

    Examples:
        >>> dataset = CocoCaptionsRecord("data/val2017", "annotations/captions_val2017.json")  # doctest: +ELLIPSIS
        loading annotations into memory...
        >>> image, captions = dataset[0]
    """

    _USUAL = ("captions_{part}.json", "image_info_{part}.json")
    _HAS_PIXELS = False


# Any: pycocotools is untyped.
def _reader_of_annotations() -> Any:
    try:
        from pycocotools.coco import COCO
    except ImportError as err:
        err.add_note("COCO's annotation files are read with it. Run: pip install pycocotools")
        raise
    return COCO


class _CocoAnnotations(SplitPairsDataset[TrainVal]):
    """The annotations of each image, as JSON."""

    _TARGET = "annotation"

    # Any: COCO's dicts.
    @derived
    def categories(self) -> list[dict[str, Any]]:
        """The categories in the annotation file."""
        return list(self._selection.reader.manifest.metadata[CATEGORIES])

    # Any: an annotation, or a list of them.
    def _load_target(self, data: bytes) -> Any:
        return json.loads(data)


class CocoStuffRecord(SplitPairsDataset[TrainVal], VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """COCO's masks of stuff, read from records. A mask is a PIL image of the categories' ids; 183 is any thing."""

    _ENTRY = "coco_stuff"
    _TARGET = "mask"

    @derived
    def targets(self) -> list[str]:
        """The paths of the masks."""
        return self._paths("mask")


class CocoPanopticRecord(_CocoAnnotations, VisionDataset):  # type: ignore[misc]  # torchvision is untyped
    """COCO's panoptic segments, read from records.

    A target is the annotation of an image, a dict with "segments_info", and "mask": a `tv_tensors.Mask`, int32 [H, W],
    of the segments' ids.
    """

    _ENTRY = "coco_panoptic"

    @override
    def _files_below(self, root: str) -> Mapping[str, Files]:
        files = self._recipe_files(image="images", mask="masks")
        return {**files, "annotation": files["image"]}

    @derived
    def masks(self) -> list[str]:
        """The paths of the masks."""
        return self._paths("mask")

    # Any: an annotation and its mask.
    @override
    def _target(self, index: int) -> dict[str, Any]:
        return {**super()._target(index), "mask": self._loaded("mask", index, _segments)}


def _segments(data: bytes) -> Mask:
    pixels = np.asarray(open_image(data).convert("RGBA")).view("<u4")[..., 0]
    ids = (pixels & 0xFFFFFF).astype(np.int32)  # red + 256 green + 65536 blue, as in COCO
    return Mask(torch.from_numpy(ids))


class LVISRecord(_CocoAnnotations, CocoDetection):  # type: ignore[misc]  # torchvision is untyped
    """LVIS v1, read from records: targets as torchvision's `CocoDetection` has them, of 1,203 categories.

    ``json.loads(dataset.read(index, "info"))`` is what LVIS says of an image: "neg_category_ids", ....
    """

    _ENTRY = "lvis"

    @override
    def _files_below(self, root: str) -> Mapping[str, Files]:
        images = Files("images", root, ".jpg")
        return {"image": images, "annotation": images}

    @derived
    def ids(self) -> list[int]:
        """The ids of the images."""
        return [int(os.path.splitext(os.path.basename(name))[0]) for name in self._selection.names()]
