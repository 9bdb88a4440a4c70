"""`CocoDetectionRecord` and `CocoCaptionsRecord`: torchvision's COCO classes over the records of a folder of images."""

import contextlib
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from PIL import Image
from torchvision.datasets import CocoCaptions, CocoDetection
from torchvision.datasets.folder import pil_loader

from recordzoo.families.annotated import AnnotatedDataset
from recordzoo.families.base import Root, Transform
from recordzoo.preparing.options import PrepareOptions


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

    entry = "coco"
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
