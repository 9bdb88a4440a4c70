"""Folders of images with annotation files from records: torchvision's COCO and Flickr classes; COCO's masks; LVIS."""

import contextlib
import io
import json
import os
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import CocoCaptions, CocoDetection, Flickr8k, Flickr30k, VisionDataset, VOCSegmentation
from torchvision.datasets.flickr import Flickr8kParser
from torchvision.datasets.folder import default_loader, pil_loader
from torchvision.tv_tensors import Mask
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.base.text import TrainVal, text_of
from recordzoo.datasets.annotated_recipe import CATEGORIES
from recordzoo.errors import ArgumentError, OtherSourceError, RecordError, SourceError
from recordzoo.families.base import Root, Transform, ZooDataset
from recordzoo.families.derived import derived, is_unchanged, snapshot
from recordzoo.families.files import Files, SplitPairsDataset, TargetPathsDataset
from recordzoo.families.folders import Loader, LoaderDataset, PathLoader, as_file
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import ANNOTATIONS, dataset_recipe
from recordzoo.recipes.folders import FlatRecipe
from recordzoo.recipes.recipe import Recipe, open_image
from recordzoo.records.reader import RecordReader

# Any, in all of this module: ids and attributes are what annotation files have.


class AnnotatedDataset(ZooDataset):
    """`ZooDataset` whose attributes are read from an annotation file, as in torchvision; "ids" is one of them.

    The record set lies beside the folder of the images, and serves all annotation files. One is read when the dataset
    is opened: from the disk if it is there, else from the record set, by its name.

    A pickle has these attributes only if they were changed: where it is opened, the annotation file is read again.
    Changes within an attribute are noticed in lists and in dicts of lists; of any other, assign the changed object.

    Attributes:
        _USUAL: Names of the annotation files that are read if none is given, the first that the record set holds;
            ``{part}`` is the part of the catalogue's dataset.
        _file: The annotation file.
        _parsed: What was made of it, unchangeable: its snapshot.
    """

    _ITEMS = "ids"
    _USUAL: ClassVar[Sequence[str]]
    _loader: PathLoader
    _file: "AnnotationFile"
    _parsed: Mapping[str, object]
    ids: list[Any]

    @abstractmethod
    def _parse(self, path: str) -> dict[str, Any]:
        """Read an annotation file: attributes by name."""

    @abstractmethod
    def _image_path(self, id: Any) -> str:
        """Return the path of a sample's image, existing or not."""

    def _open_annotated(
        self, annotations: Root | None, loader: Loader, *, download: bool, options: PrepareOptions
    ) -> None:
        """Open the record set of the images; prepare it if it is not there; then read the annotation file.

        A folder that is called like the record set of a part is taken for that part, whose annotation files lie beside
        it. For any other folder, its images are prepared as by `recordzoo prepare FOLDER --from flat`.
        """
        # For a URL only the name counts.
        folder = Path(self.root).expanduser().absolute()
        entry = catalogue.entry(self._ENTRY)
        part = next((part.name for part in entry.parts if entry.set_name(part.name) == folder.name), None)
        recipe: Recipe = FlatRecipe() if part is None else dataset_recipe(self._ENTRY, part, self.raw_files)
        reader = self._open(
            recipe,
            download=download and part is not None,
            options=self._chosen(options),
            raw_root=folder if part is None else folder.parent,
        )
        root = os.path.expanduser(os.fspath(self.root))
        self._loader = PathLoader(loader, reader, root, keeps_names=True)
        usual = [name.format(part=reader.manifest.part) for name in self._USUAL]
        self._file = AnnotationFile.find(reader, annotations, usual)
        self._read_annotations()

    @override
    def _check_source(self, reader: RecordReader, recipe: Recipe) -> None:
        # Whose images they are does not matter: the annotation file says which of them are samples.
        if "image" not in reader.manifest.blobs:
            raise OtherSourceError(f"{type(self).__name__}: {reader.path} holds no images.", path=str(reader.path))

    def _read_annotations(self) -> None:
        """Set the missing attributes from the annotation file, and show the images of its samples."""
        reader = self._loader.reader
        with self._file.opened(reader) as path:
            parsed = self._parse(path)
        self._parsed = {name: snapshot(value) for name, value in parsed.items()}
        for name, value in parsed.items():
            self.__dict__.setdefault(name, value)
        found = []
        for id in self.ids:
            with contextlib.suppress(LookupError, TypeError):  # an image that is missing, or an id of the user's own
                found.append(self._loader.find(self._image_path(id)))
        positions = [position for position in found if position is not None]
        self._show(Selection(reader, positions=np.array(positions, np.int64)))

    @override
    def _position(self, index: int) -> int | None:
        return self._loader.find(self._image_path(self.ids[index]))

    @override
    def _hint(self, indices: Sequence[int]) -> None:
        with contextlib.suppress(LookupError, TypeError):  # __getitem__ will say so
            positions = [position for index in indices if (position := self._position(index)) is not None]
            if len(positions) > 1:
                self._hint_positions(positions)

    @override
    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        same = [name for name, kept in self._parsed.items() if name in state and is_unchanged(state[name], kept)]
        return {name: value for name, value in state.items() if name not in ("_parsed", "_selection", *same)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._read_annotations()


@dataclass(frozen=True)
class AnnotationFile:
    """Where an annotation file is.

    Attributes:
        path: Its path, absolute; that of one in the record set is only its name.
        position: Its position in the record set; None for one on the disk.
        state: Size and time of one on the disk.
    """

    path: str
    position: int | None
    state: tuple[int, int] | None = None

    @classmethod
    def find(cls, reader: RecordReader, given: Root | None, usual: Sequence[str]) -> "AnnotationFile":
        """Find the given file, on disk or by its name in the record set; by default the first usual one that exists.

        One that is nowhere is taken to be on the disk: to open it raises what torchvision raises.
        """
        path = None if given is None else os.path.abspath(os.path.expanduser(os.fspath(given)))
        if path is not None and os.path.exists(path):
            return cls(path, None, _state(path))
        has_files = ANNOTATIONS in reader.manifest.blobs
        positions = np.flatnonzero(reader.lengths(ANNOTATIONS)).tolist() if has_files else []
        stored = {reader.names[position].rpartition("/")[2]: position for position in positions}
        for name in usual if path is None else [os.path.basename(path)]:
            if name in stored:
                return cls(name, stored[name])
        if path is not None:
            return cls(os.fspath(given or ""), None)
        held = f"holds only {', '.join(stored)}" if stored else "holds no annotation files"
        raise ArgumentError(
            f"{reader.path} {held}: pass an annotation file. One that is read by default is called "
            f"{' or '.join(usual)}; if it lies beside the images now, prepare again with refresh=True.",
            path=str(reader.path),
        )

    @contextlib.contextmanager
    def opened(self, reader: RecordReader) -> Iterator[str]:
        """Give the file a path; refuse it if it has changed."""
        if self.position is not None:
            with as_file(reader.read(ANNOTATIONS, self.position), self.path) as path:
                yield path
            return
        if self.state is not None and self.state != _state(self.path):
            raise RecordError(f"{self.path} has changed since the dataset was opened. Open it again.", path=self.path)
        yield self.path


def _state(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


class CocoDetectionRecord(AnnotatedDataset, CocoDetection):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CocoDetection`, read from records.

    The record set lies beside the folder of the images, ``val2017.records`` beside ``val2017/``, and serves all
    annotation files. ``recordzoo prepare coco.val2017`` makes it of the authors' archives or of their tree, and stores
    their annotation files in it: then neither images nor annotation files are needed on the disk. Any other folder is
    prepared by opening it.

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


class CocoStuffRecord(SplitPairsDataset[TrainVal], TargetPathsDataset, VOCSegmentation):  # type: ignore[misc]  # torchvision is untyped
    """COCO's masks of stuff, read from records. A mask is a PIL image of the categories' ids; 183 is any thing."""

    _ENTRY = "coco_stuff"
    _TARGET = "mask"


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


Captions = dict[str, list[str]]


class _FlickrRecord(AnnotatedDataset, LoaderDataset):
    """Base of both classes: a sample is an image with a list of captions; `annotations` has them by image."""

    annotations: Captions

    def __init__(
        self,
        root: Root,
        ann_file: Root | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
        *,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._open_annotated(ann_file, loader, download=download, options=options)
        self.ann_file = self._file.path if ann_file is None else os.path.expanduser(os.fspath(ann_file))

    # Any: a list and a dict.
    @override
    def _parse(self, path: str) -> dict[str, Any]:
        try:
            with open(path) as file:  # in the encoding of the system, as torchvision
                text = file.read()
        except UnicodeDecodeError as err:
            text_of(Path(path).read_bytes(), path)  # names the line, if it is not UTF-8
            raise SourceError(f"{path} cannot be read: {err}.", path=path) from err
        annotations = self._read_captions(path, text)
        return {"annotations": annotations, "ids": sorted(annotations)}

    @abstractmethod
    def _read_captions(self, path: str, text: str) -> Captions:
        """Return the captions of each image, by its id; `path` is for messages."""

    @override
    def _image_path(self, id: str) -> str:
        return os.path.join(self._loader.folder, id)


class Flickr8kRecord(_FlickrRecord, Flickr8k):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Flickr8k`, read from records.

    The record set lies beside the folder of the images, ``Flicker8k_Dataset.records`` beside ``Flicker8k_Dataset/``.
    ``recordzoo prepare flickr8k`` makes it of the authors' archives or of their tree, and stores the caption files that
    are beside the folder in it. Any other folder is prepared by opening it.

    A caption file is read from the disk if it is there, else from the record set, by its name. It is the authors' page
    (HTML), as torchvision reads it; or, other than in torchvision, their ``Flickr8k.token.txt`` or Karpathy's
    ``dataset_flickr8k.json``, of which captions without an image are left out.

    Args:
        root: The folder of the images, existing or not; or the record set.
        ann_file: The caption file. Default: ``8k-pictures.html`` or ``Flickr8k.token.txt`` of the record set.
        target_transform: Applied to the list of captions.
        download: Download the archives of a folder called ``Flicker8k_Dataset`` into the folder above it, if neither is
            there; with ``accept_terms=True``.

    Raises:
        ArgumentError: There is no default for `ann_file`.
        FileNotFoundError: `ann_file` is neither on the disk nor in the record set.
        IndexError: The authors' page names an image that is not there.
        SourceError: A line of `ann_file` is no caption.
        FolderError, NotPreparedError: There are no records and no images.

    Examples:
        >>> dataset = Flickr8kRecord("data/Flicker8k_Dataset", "data/Flickr8k.token.txt")
        >>> image, captions = dataset[0]
    """

    _ENTRY = "flickr8k"
    _USUAL = ("8k-pictures.html", "Flickr8k.token.txt")

    @override
    def _read_captions(self, path: str, text: str) -> Captions:
        names = self._loader.reader.names
        if text.lstrip().startswith("<"):
            images = {name.partition("_")[0]: name for name in sorted(names, reverse=True) if name.endswith(".jpg")}
            page = _Page(self._loader.folder, images)
            page.feed(text)
            return page.annotations  # type: ignore[no-any-return]  # torchvision is untyped
        there = set(names)
        return {self._image_path(name): found for name, found in _captions(path, text).items() if name in there}


class Flickr30kRecord(_FlickrRecord, Flickr30k):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `Flickr30k`, read from records.

    See `Flickr8kRecord`; here the names are ``flickr30k-images/``, ``flickr30k-images.records`` and
    ``recordzoo prepare flickr30k``. The caption file is the authors' ``results_20130124.token``; or, other than in
    torchvision, Karpathy's ``dataset_flickr30k.json``, which has captions of most images.

    Args:
        root: The folder of the images, existing or not; or the record set.
        ann_file: The caption file. Default: ``results_20130124.token`` or ``dataset_flickr30k.json`` of the record set.
        target_transform: Applied to the list of captions.
        download: Download the archives of a folder called ``flickr30k-images`` into the folder above it, if neither is
            there; with ``accept_terms=True``.

    Examples:
        >>> dataset = Flickr30kRecord("data/flickr30k-images", "data/dataset_flickr30k.json")
        >>> image, captions = dataset[0]
    """

    _ENTRY = "flickr30k"
    _USUAL = ("results_20130124.token", "dataset_flickr30k.json")

    @override
    def _read_captions(self, path: str, text: str) -> Captions:
        return _captions(path, text)


class _Page(Flickr8kParser):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's parser of the authors' page, which finds images in a record set.

    Args:
        root: The folder of the images.
        images: Names of images by the number of the photograph, with which they begin.
    """

    def __init__(self, root: str, images: Mapping[str, str]) -> None:
        super().__init__(root)
        self._images = images

    @override
    def handle_data(self, data: str) -> None:
        if not self.in_table or self.current_tag != "a" or data == "Image Not Found":
            super().handle_data(data)
            return
        number = data.split("/")[-2]
        if number not in self._images:
            raise IndexError(f"There is no image {number}_*.jpg in {self.root}, and the page has captions of it.")
        self.current_img = os.path.join(self.root, self._images[number])
        self.annotations[self.current_img] = []


def _captions(path: str, text: str) -> Captions:
    """Read lines ``name.jpg#0<TAB>caption``, or Karpathy's JSON: the captions of each image, by its name."""
    if text.startswith("{"):
        try:
            images = json.loads(text)["images"]
            return {each["filename"]: [sentence["raw"] for sentence in each["sentences"]] for each in images}
        except (ValueError, LookupError, TypeError, RecursionError) as err:
            raise SourceError(f"{path} is no JSON of captions ({err!r}). Get the file again.") from err
    found = defaultdict(list)
    for number, line in enumerate(io.StringIO(text), 1):
        cells = line.strip().split("\t")
        if len(cells) != 2:
            raise SourceError(
                f"{path}, line {number}: expected an image, a tab and a caption, found {line.strip()[:80]!r}. Get the "
                "file again, or correct the line.",
                lines=[number],
            )
        found[cells[0][:-2]].append(cells[1])
    return found
