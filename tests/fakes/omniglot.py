"""Omniglot by code: two zips of black-and-white images, in folders of alphabets and in them of characters."""

from typing import Any
from unittest.mock import patch

import numpy as np
import torchvision.datasets.omniglot as theirs
from PIL import Image

from tests.fakes.fake import Case, Fake, md5, zipped
from tests.fakes.mutations import change, change_item
from tests.fakes.pictures import encoded
from tests.fakes.scale import scaled

MUTATIONS = {
    "images reversed": change("_flat_character_images", lambda images: images[::-1]),
    "images shortened": change("_flat_character_images", lambda images: images[:3]),
    "one image replaced": change_item("_flat_character_images", 0, lambda images: images[3]),
    "a label replaced": change_item("_flat_character_images", 0, lambda images: (images[0][0], 4)),  # no such file
    "characters changed": change_item("_characters", 1, lambda characters: characters[0]),
}

_ALPHABETS = {
    "background": {"Korean": (2, 1), "Japanese_(hiragana)": (10, 1, 9), "Japanese": (1,)},
    "evaluation": {"Angelic": (1, 2), "ULOG": (1,)},
}


class Omniglot(theirs.Omniglot):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's, which lists folders in the order of the file system, with sorted lists."""

    # Any: torchvision's own arguments.
    def __init__(
        self,
        root: Any,
        background: bool = True,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        loader: Any = None,
    ) -> None:
        listing = {name: _sorted(getattr(theirs, name)) for name in ("list_dir", "list_files")}
        with patch.multiple(theirs, **listing):
            super().__init__(root, background, transform, target_transform, download, loader)


def _sorted(listing: Any) -> Any:
    return lambda *arguments: sorted(listing(*arguments))


def _zip(rng: np.random.Generator, part: str) -> bytes:
    files = {}
    for alphabet, characters in _ALPHABETS[part].items():
        for character in characters:
            folder = f"images_{part}/{alphabet}/character{character:02d}"
            for drawer in (3, 1, 12, *range(13, 10 + scaled(3))):
                image = Image.fromarray(rng.integers(0, 2, (35, 35), dtype=np.uint8) * 255)
                kind = "L" if drawer == 3 else "1"  # all real ones have 1 bit
                files[f"{folder}/{character:04d}_{drawer:02d}.png"] = encoded(image.convert(kind), "png")
    if part == "background":
        files["images_background/Korean/notes.png"] = b"beside the characters"
        files["images_background/Korean/character01/strokes/0001_01.png"] = b"below a character"
    else:
        files["images_evaluation/ULOG/character01/0001_01.PNG"] = b"torchvision wants .png"
    return zipped(files)


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files = {f"images_{part}.zip": _zip(rng, part) for part in _ALPHABETS}
    case = Case(
        "OmniglotRecord",
        ({}, {"background": False}),
        mutations=MUTATIONS,
        attributes={"zips_md5": {name.removesuffix(".zip"): md5(data) for name, data in files.items()}},
        theirs=Omniglot,
    )
    return Fake("omniglot", files, [case], keeps_archives=True)


FAKES = (_build(),)
