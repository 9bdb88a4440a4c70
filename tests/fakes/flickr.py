"""Flickr8k and Flickr30k by code: photographs, and captions as a page, as lines and as Karpathy's JSON."""

import json
from typing import Any

import numpy as np
from numpy.random import Generator
from torchvision.datasets.folder import pil_loader

from tests.fakes.fake import Case, OtherFile, fake, tar, zipped
from tests.fakes.mutations import CAPTIONS
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import scaled

_NAMES = (
    *("3385593926_d3e9c21170.jpg", "1000268201_693b08cb0e.jpg", "667626_18933d713e.jpg", "23445819_3a458716c1.jpg"),
    *(f"{number}_93b08cb0e6.jpg" for number in range(5_000_000, 4_999_996 + scaled(4))),
)
_NOT_LISTED = "109823395_6fb423a90f.jpg"


def _images(folder: str) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    return {f"{folder}/{name}": jpeg(picture(rng, 26, 20)) for name in sorted([*_NAMES, _NOT_LISTED])}


def _lines(*more: str) -> bytes:
    lines = [f"{name}#{number}\tCaption {number} of a café , {name[:3]} ." for number in (0, 1) for name in _NAMES]
    return "".join(f"{line}\n" for line in (*lines, *more)).encode()


def _page() -> bytes:
    def row(name: str) -> str:
        url = f"http://www.flickr.com/photos/some@N0/{name.partition('_')[0]}/"
        captions = "".join(f"<li>Caption {number} of a caf&eacute;, {name[:3]}. \n" for number in (0, 1))
        return f'<tr><td><a href="{url}">{url}</a></td><td><ul>{captions}</ul></td></tr>\n'

    rows = [row(name) for name in _NAMES]
    missing = "<tr><td>Image Not Found</td><td><ul><li>Of nothing.</ul></td></tr>\n"
    top = '<html><body><p><a href="index.html">Back</a><ul><li>Not a caption.</ul></p>\n'
    return f'{top}<table border="1">\n{rows[0]}{missing}{"".join(rows[1:])}</table></body></html>'.encode()


def _karpathy() -> bytes:
    found = [
        {"filename": name, "split": "train", "sentences": [{"raw": f"Of {name[:3]}.", "tokens": []}]}
        for name in _NAMES[:3]
    ]
    return json.dumps({"images": found, "dataset": "flickr30k"}).encode()


def grey(path: str) -> Any:
    return pil_loader(path).convert("L")


PAGE = OtherFile("8k-pictures.html", _page())
TOKENS = OtherFile("results_20130124.token", _lines())
KARPATHY = OtherFile("dataset_flickr30k.json", _karpathy())
_WHEN = "torchvision looks for images when it reads captions or images, ours for the folder"
_DIFFERENCES = (
    (r"^list index out of range", r": the directory cannot be listed", _WHEN),
    (r"^\[Errno 2\] No such file", r": the directory cannot be listed", _WHEN),
)


def _case(name: str, folder: str, file: OtherFile) -> Case:
    return Case(
        name,
        [{"ann_file": file}, {"ann_file": file, "loader": grey}],
        [{"ann_file": "/nowhere/captions.txt"}],
        CAPTIONS,
        differences=_DIFFERENCES,
        folder=folder,
        optional=("ann_file",),
    )


@fake("flickr8k", _case("Flickr8kRecord", "Flicker8k_Dataset", PAGE))
def flickr8k(_: Generator) -> dict[str, bytes]:
    """The authors' archives, with what macOS leaves."""
    images = {**_images("Flicker8k_Dataset"), f"__MACOSX/Flicker8k_Dataset/._{_NAMES[0]}": b"what macOS leaves"}
    texts = {
        "Flickr8k.token.txt": _lines("2258277193_586949ec62.jpg.1#0\tOf no image ."),
        "__MACOSX/._Flickr8k.token.txt": b"what macOS leaves",
        "Flickr_8k.trainImages.txt": b"not read",
    }
    return {"Flickr8k_Dataset.zip": zipped(images), "Flickr8k_text.zip": zipped(texts)}


@fake("flickr30k", _case("Flickr30kRecord", "flickr30k-images", TOKENS))
def flickr30k(_: Generator) -> dict[str, bytes]:
    """The authors' images, and Karpathy's captions."""
    images = {**_images("flickr30k-images"), "flickr30k-images/readme.txt": b"not read"}
    captions = {"dataset_coco.json": b"not read", KARPATHY.name: KARPATHY.data}
    return {"flickr30k-images.tar.gz": tar(images), "caption_datasets.zip": zipped(captions)}
