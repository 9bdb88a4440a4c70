"""`Flickr8kRecord` and `Flickr30kRecord`: torchvision's classes over the records of a folder of images."""

import io
import json
import os
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from torchvision.datasets import Flickr8k, Flickr30k
from torchvision.datasets.flickr import Flickr8kParser
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.families.annotated import AnnotatedDataset
from recordzoo.families.base import Root, Transform
from recordzoo.families.folders import Loader, LoaderDataset
from recordzoo.preparing.options import PrepareOptions

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
