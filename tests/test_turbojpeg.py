"""libjpeg-turbo through ctypes: regions are Pillow's pixels; of images in any order; nothing unusual is decoded."""

import ctypes.util
import importlib.util
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from recordzoo.images import turbojpeg
from recordzoo.images.decode import decode_rgb
from recordzoo.images.turbojpeg import Decompressor, Header, UnusualImage, library
from tests.fakes.jpegs import encode, with_factors, with_size
from tests.fakes.pictures import encoded, jpeg, picture

if library() is None:
    pytest.skip("needs turbojpeg", allow_module_level=True)

RNG = np.random.default_rng(1)
PIXELS = np.asarray(picture(RNG, 133, 97, 0.3, (20, 20, 60, 50)))
SMALL = np.asarray(picture(RNG, 30, 41))
MCU = {"4:4:4": (8, 8), "4:2:2": (16, 8), "4:2:0": (16, 16), "gray": (8, 8), "4:4:0": (8, 16)}
FILES = {
    **{f"{name} {size[1]}": encode(pixels, name) for name in MCU for pixels, size in ((PIXELS, "Ll"), (SMALL, "Ss"))},
    "restarts": encode(PIXELS, "4:2:0", restart_blocks=3),
    "other factors": with_factors(encode(PIXELS, "gray"), 0x22),
}
WHOLE = {name: np.asarray(decode_rgb(data)) for name, data in FILES.items()}


@given(st.lists(st.tuples(st.sampled_from(sorted(FILES)), st.data(), st.booleans()), min_size=1, max_size=6))
def test_regions_of_images_in_any_order(wanted: list[tuple[str, st.DataObject, bool]]) -> None:
    decompressor = Decompressor()
    headers = {name: decompressor.header(data) for name, data in FILES.items()}
    for name, data, is_halved in wanted:
        height, width = WHOLE[name].shape[:2]
        left, top = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
        right, bottom = data.draw(st.integers(left + 1, width)), data.draw(st.integers(top + 1, height))
        box = (left, top, right - left, bottom - top)
        if is_halved:
            decompressor.region(FILES[name], headers[name], box, 2)
        found = decompressor.region(FILES[name], headers[name], box)
        assert np.array_equal(found, WHOLE[name][top:bottom, left:right])


@pytest.mark.parametrize("denominator", [1, 2, 4, 8])
@pytest.mark.parametrize("name", FILES)
def test_at_a_fraction_of_the_size(name: str, denominator: int) -> None:
    decompressor = Decompressor()
    header = decompressor.header(FILES[name])
    whole = decompressor.region(FILES[name], header, None, denominator)
    assert whole.shape == (-(-header.height // denominator), -(-header.width // denominator), 3)
    with Image.open(io.BytesIO(FILES[name])) as image:
        image.draft(None, (max(1, header.width // denominator), max(1, header.height // denominator)))
        assert np.array_equal(whole, np.asarray(image.convert("RGB")))
    for box in ((0, 0, 1, 1), (5, 7, 20, 30), (header.width - 9, header.height - 11, 9, 11), (3, 0, 16, 25)):
        left, top = box[0] // denominator, box[1] // denominator
        right, bottom = -(-(box[0] + box[2]) // denominator), -(-(box[1] + box[3]) // denominator)
        found = decompressor.region(FILES[name], header, box, denominator)
        assert np.array_equal(found, whole[top:bottom, left:right])


def test_another_image_opened_in_between_is_no_matter() -> None:
    """With the header of another image, libjpeg-turbo kept an old region and wrote outside of the pixels."""
    one, other = Decompressor(), Decompressor()
    header = one.header(FILES["4:2:0 l"])
    one.header(FILES["4:4:4 s"])
    with pytest.raises(UnusualImage):
        one.header(encoded(picture(RNG, 9, 9), "PNG"))
    for decompressor in (one, other):
        found = decompressor.region(FILES["4:2:0 l"], header, (100, 60, 20, 20))
        assert np.array_equal(found, WHOLE["4:2:0 l"][60:80, 100:120])
    with pytest.raises(UnusualImage):
        one.region(FILES["4:4:4 s"], header, (100, 60, 20, 20))


@pytest.mark.parametrize("box", [(120, 0, 40, 10), (0, 90, 10, 40), (140, 0, 3, 3), (0, 100, 3, 3)])
def test_a_box_outside_is_refused(box: tuple[int, int, int, int]) -> None:
    decompressor = Decompressor()
    header = Header(160, 140, 16, 16)
    data = encode(PIXELS)
    assert decompressor.header(data).width == 133
    with pytest.raises(UnusualImage):
        decompressor.region(data, header, box)


PHOTO = picture(RNG, 40, 30)
UNUSUAL = {
    "nothing": b"",
    "a PNG": encoded(PHOTO, "PNG"),
    "progressive": encoded(PHOTO, "JPEG", progressive=True),
    "CMYK": encoded(PHOTO.convert("CMYK"), "JPEG"),
    "YCCK": encode(np.dstack([PIXELS, PIXELS[..., :1]]), "4:4:4", colorspace="YCCK"),
    "RGB": encoded(PHOTO, "JPEG", keep_rgb=True),
    "arithmetic": encode(PIXELS, arithmetic=1),
    "lossless": encode(PIXELS, "4:4:4", lossless=1),
    "4:1:1": encode(PIXELS, "4:1:1"),
    "4:4:1": encode(PIXELS, "4:4:1"),
    "of no size": with_size(jpeg(PHOTO), 0, 30),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_left_to_others(name: str) -> None:
    decompressor = Decompressor()
    with pytest.raises(UnusualImage):
        decompressor.header(UNUSUAL[name])
    header = decompressor.header(FILES["4:2:0 l"])  # and it goes on working
    assert np.array_equal(decompressor.region(FILES["4:2:0 l"], header), WHOLE["4:2:0 l"])


# The library


@pytest.fixture
def searched() -> Iterator[None]:
    library.cache_clear()
    yield
    library.cache_clear()


def test_no_library(searched: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    assert library() is None
    with pytest.raises(OSError, match="no libjpeg-turbo 3"):
        Decompressor()


def test_a_library_that_lacks_the_functions_is_not_used(searched: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turbojpeg, "candidates", lambda: iter([str(sys.modules["_ctypes"].__file__), "/no/such"]))
    assert library() is None


def test_the_systems_library_is_tried_after_the_wheels(searched: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = library()
    assert found is not None
    library.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: found._name if name == "turbojpeg" else None)
    assert library() is not None


@pytest.mark.parametrize(
    "name", ["turbojpeg.libs/libturbojpeg-1a2b.so.0.3", "turbojpeg.dylibs/libturbojpeg.0.dylib", "turbojpeg-1a2b.dll"]
)
def test_where_the_wheels_have_the_library(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    (tmp_path / "turbojpeg.py").touch()
    spec = importlib.util.spec_from_file_location("turbojpeg", tmp_path / "turbojpeg.py")
    monkeypatch.setattr(turbojpeg.importlib.util, "find_spec", lambda _: spec)
    assert next(turbojpeg.candidates()) == str(tmp_path / name)
