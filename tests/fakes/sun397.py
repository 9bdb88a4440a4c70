"""SUN397 by code: a folder for each letter, scenes one or two deep in it; PNG, GIF and BMP files named .jpg."""

import functools
from typing import Any

import numpy as np
from PIL import Image
from torchvision.datasets import SUN397

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import FILES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

SCENES = ("a/abbey", "a/apartment_building/outdoor", "b/bakery/shop", "b/bakery-hall", "c/church/outdoor", "z/zoo")


class Sorted(SUN397):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's class, sorted: its own order is that of the file system."""

    # Any: its own arguments.
    @functools.wraps(SUN397.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pairs = zip(self._image_files, self._labels, strict=True)
        ordered = sorted(pairs, key=lambda pair: (pair[0].parent.as_posix(), pair[0].name))
        self._image_files, self._labels = map(list, zip(*ordered, strict=True))


def _odd(image: Image.Image, number: int) -> bytes:
    """Encode an image as the real ones with a wrong ending are."""
    kinds = [(image.convert("L"), "PNG"), (image.convert("RGBA"), "PNG"), (image, "GIF"), (image, "BMP")]
    picked, kind = kinds[number]
    return encoded(picked, kind)


def _build() -> Fake:
    rng = np.random.default_rng(0)
    files: dict[str, bytes] = {"SUN397/README.txt": b"not read", "SUN397/a/abbey/map.jpg": b"not of the dataset"}
    for number, scene in enumerate(reversed(SCENES)):
        for place, letters in enumerate(rng.permuted(np.tile(list("abcdefghi"), (scaled(3), 1)), axis=1)):
            image = picture(rng, 26, 20)
            data = _odd(image, number) if place == 1 and number < 4 else jpeg(image)
            files[f"SUN397/{scene}/sun_{''.join(letters)}.jpg"] = data
    files["SUN397/ClassName.txt"] = "".join(f"/{scene}\n" for scene in SCENES).encode()
    case = Case("SUN397Record", mutations=FILES, theirs=Sorted)
    return Fake("sun397", {"SUN397.tar.gz": tar(files)}, [case])


FAKES = (_build(),)
