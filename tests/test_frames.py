"""Frames: a part of an image is Pillow's part of the whole image, to the pixel, and what Pillow refuses is refused."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from recordzoo.images import decode as frames
from recordzoo.images.decode import ArrayFrame, JpegFrame, decode_rgb, decoders, open_encoded, open_raw
from tests.fakes.folder import bad_image, cut_image
from tests.fakes.jpegs import SUBSAMPLINGS, YCCK, encode, scan_start
from tests.fakes.odd_images import odd_images
from tests.fakes.pictures import encoded, jpeg, picture

RNG = np.random.default_rng(2)
PHOTO = picture(RNG, 203, 151, 0.6, (40, 30, 100, 80))
FRAME = ArrayFrame if frames.library() is None else JpegFrame
"""What a usual JPEG is opened as."""


def result(work: Callable[[], Any]) -> NDArray[np.uint8] | tuple[type, str]:
    """The pixels, or the error."""
    try:
        return np.asarray(work())
    except Exception as err:  # noqa: BLE001 - whatever Pillow raises
        return type(err), str(err).partition(" <_io.")[0]


def same(found: Any, right: Any) -> bool:
    return np.array_equal(found, right) if isinstance(right, np.ndarray) else found == right


def check(data: bytes) -> None:
    right = np.asarray(decode_rgb(data))
    frame = open_encoded(data)
    assert isinstance(open_encoded(JPEG), JpegFrame) == (frames.library() is not None)  # whatever came before
    assert (frame.height, frame.width) == right.shape[:2]
    assert np.array_equal(frame.pixels(), right)
    width, height = max(1, frame.width // 3), max(1, frame.height // 3)
    for left in (0, (frame.width - width) // 2, frame.width - width):  # the middle, each edge and corner
        for top in (0, (frame.height - height) // 2, frame.height - height):
            found = frame.pixels((left, top, width, height))
            assert np.array_equal(found, right[top : top + height, left : left + width]), (left, top)
    assert np.array_equal(frame.pixels((0, 0, frame.width, frame.height)), right)


@pytest.mark.needs("turbojpeg")
@given(
    st.integers(1, 130),
    st.integers(1, 130),
    st.sampled_from(sorted(SUBSAMPLINGS)),
    st.integers(1, 100),
    st.sampled_from([{}, {"restart_blocks": 1}, {"restart_blocks": 5}, {"restart_rows": 1}, {"progressive": 1}]),
    st.integers(0, 9),
)
@example(1, 1, "4:2:0", 90, {}, 0)
@example(17, 1, "4:2:0", 90, {}, 0)
@example(1, 300, "4:4:0", 90, {}, 0)
@example(300, 200, "4:2:0", 100, {}, 1)
@example(301, 199, "4:2:2", 50, {"restart_blocks": 4}, 1)
def test_parts_of_jpegs(width: int, height: int, kind: str, quality: int, options: dict[str, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (3 + seed, 4, 3), np.uint8)
    pixels = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.NEAREST))
    check(encode(pixels, kind, quality, **options))


OTHERS = {
    **odd_images(),
    "progressive.jpg": encoded(PHOTO, "JPEG", progressive=True),
    "rgb.jpg": encoded(PHOTO, "JPEG", keep_rgb=True),
    "photo.webp": encoded(PHOTO, "WEBP"),
    "garbage-behind.jpg": jpeg(PHOTO) + b"garbage",
    "much-garbage-behind.jpg": jpeg(PHOTO) + RNG.bytes(5000),
    "another-behind.jpg": jpeg(PHOTO) + jpeg(PHOTO.rotate(90)),
    "zeros-behind.jpg": jpeg(PHOTO) + bytes(3000),
}
BY_LIBRARY = {  # which Pillow does not write
    "ycck.jpg": lambda: encode(np.dstack([PHOTO, PHOTO.convert("L")]), "4:4:4", colorspace=YCCK),
    "arithmetic.jpg": lambda: encode(np.asarray(PHOTO), arithmetic=1),
    "4:1:1.jpg": lambda: encode(np.asarray(PHOTO), "4:1:1"),
    "4:4:1.jpg": lambda: encode(np.asarray(PHOTO), "4:4:1"),
    "lossless.jpg": lambda: encode(np.asarray(PHOTO), "4:4:4", lossless=1),
}
NAMES = [*OTHERS, *(pytest.param(name, marks=pytest.mark.needs("turbojpeg")) for name in BY_LIBRARY)]


def other(name: str) -> bytes:
    return BY_LIBRARY[name]() if name in BY_LIBRARY else OTHERS[name]


@pytest.mark.filterwarnings("ignore:Palette images with Transparency:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_other_images(name: str) -> None:
    check(other(name))


JPEG = encode(np.asarray(PHOTO), "4:2:0", restart_blocks=13)
SCAN = scan_start(JPEG)


@given(st.integers(2, len(JPEG)) | st.integers(2, SCAN), st.binary(max_size=40), st.booleans())
@example(SCAN, b"\xff\xd9", False)
@example((SCAN + len(JPEG)) // 2, b"\xff\xd9", True)
@example((SCAN + 9 * len(JPEG)) // 10, b"\xff\xd0", False)
@example(len(JPEG) - 20, b"\xff\xd7\xff\xd6", False)
@example(len(JPEG) - 1, b"", True)
def test_damage_anywhere(at: int, change: bytes, is_cut: bool) -> None:
    broken = JPEG[:at] + change + (b"" if is_cut else JPEG[at + len(change) :])
    with warnings.catch_warnings(action="ignore", category=Image.DecompressionBombWarning):
        right = result(lambda: decode_rgb(broken))
        assert same(result(lambda: open_encoded(broken).pixels()), right)
        assert isinstance(open_encoded(JPEG), FRAME)
        if isinstance(right, np.ndarray) and right.shape == (151, 203, 3):
            assert same(result(lambda: open_encoded(broken).pixels((60, 50, 70, 60))), right[50:110, 60:130])


def test_more_pixels_than_pillow_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 203 * 151 - 1)
    with pytest.raises(Image.DecompressionBombWarning, match="30653 pixels"):  # pytest makes it an error
        open_encoded(JPEG)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 203 * 151 // 2 - 1)
    with pytest.raises(Image.DecompressionBombError):
        open_encoded(JPEG)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    check(JPEG)


# Raw pixels


@pytest.mark.parametrize("shape", [(9, 8), (9, 8, 1), (9, 8, 3), (9, 8, 4)])
def test_raw_pixels(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    pixels.flags.writeable = False
    right = np.asarray(Image.fromarray(pixels[..., 0] if shape[2:] == (1,) else pixels).convert("RGB"))
    frame = open_raw(pixels)
    assert (frame.height, frame.width) == (9, 8)
    assert np.array_equal(frame.pixels(), right)
    assert np.array_equal(frame.pixels((2, 1, 5, 7)), right[1:8, 2:7])


@pytest.mark.parametrize(
    "values",
    [np.zeros((9, 8), np.float32), np.zeros((9, 8, 2), np.uint8), np.zeros(5, np.uint8), np.zeros((0, 3), "u1")],
)
def test_raw_values_that_are_no_pixels(values: NDArray[Any]) -> None:
    with pytest.raises(OSError, match=r"is no image|has no pixels"):
        open_raw(values)


# Decoders


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "library", lambda: None)


@pytest.mark.parametrize("name", ["photo", "gray", *NAMES])
@pytest.mark.filterwarnings("ignore:Palette images with Transparency:UserWarning")
@pytest.mark.parametrize("has_simplejpeg", [pytest.param(True, marks=pytest.mark.needs("simplejpeg")), False])
def test_without_the_library(
    name: str, has_simplejpeg: bool, without_library: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    if has_simplejpeg:
        decode = frames.simplejpeg.decode_jpeg
        monkeypatch.setattr(frames.simplejpeg, "decode_jpeg", lambda *a, **o: calls.append(1) or decode(*a, **o))
    else:
        monkeypatch.setattr(frames, "simplejpeg", None)
    usual = {"photo": JPEG, "gray": jpeg(PHOTO.convert("L"))}
    check(usual[name] if name in usual else other(name))
    assert isinstance(open_encoded(JPEG), ArrayFrame)
    assert bool(calls) == has_simplejpeg
    assert decoders() == ["simplejpeg", "Pillow"] if has_simplejpeg else ["Pillow"]


@pytest.mark.parametrize("data", [b"", bad_image(), cut_image(), JPEG[: len(JPEG) // 2] + b"\xff\xd9"])
def test_without_the_library_errors_are_pillows(data: bytes, without_library: None) -> None:
    assert same(result(lambda: open_encoded(data).pixels()), result(lambda: decode_rgb(data)))
