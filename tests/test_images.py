"""Broken, hostile and odd images: each sample is what torchvision's ImageFolder gives, or fails as it does there.

Every case is prepared, then compared: pixels, errors, warnings; and what preparing says of it is checked.
"""

import struct
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, UnidentifiedImageError
from torchvision.datasets import ImageFolder

from recordzoo import ImageFolderRecord
from recordzoo.errors import ImageError, PrepareError
from recordzoo.records.reader import RecordReader
from tests.fakes.folder import cut_image, write_tree
from tests.fakes.pictures import encoded, jpeg, picture, with_broken_exif

PHOTO = picture(np.random.default_rng(7), 24, 16)


@dataclass(frozen=True)
class Outcome:
    """What taking a sample gives."""

    pixels: tuple[str, tuple[int, int], bytes] | None
    error: Exception | None
    warned: list[tuple[type, str]]


def taken(dataset: Any, index: int) -> Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            image, _ = dataset[index]
        except Exception as err:  # noqa: BLE001 - whatever it is, it is compared
            return Outcome(None, err, [(each.category, str(each.message)) for each in caught])
    warned = [(each.category, str(each.message)) for each in caught]
    return Outcome((image.mode, image.size, image.tobytes()), None, warned)


def assert_same_error(ours: Exception | None, theirs: Exception | None) -> None:
    """The same error; instead of an OSError of Pillow's ours is one that is also an `UnidentifiedImageError`."""
    if not isinstance(theirs, OSError):
        assert (type(ours), str(ours)) == (type(theirs), str(theirs))
        return
    assert isinstance(ours, ImageError)
    assert isinstance(ours, type(theirs))
    assert "Its raw data cannot be decoded, either" in str(ours)
    if not isinstance(theirs, UnidentifiedImageError):  # that one's words are the file's path
        assert str(theirs).rstrip(".") in str(ours)


def compared(root: Path, files: Mapping[str, bytes]) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Compare each image with torchvision's, in a tree and when the tree is gone.

    Returns:
        By name what torchvision gives, and what preparing said.
    """
    tree = write_tree(root / "photos", {f"c/{name}": data for name, data in files.items()})
    theirs = ImageFolder(tree)
    expected = [taken(theirs, index) for index in range(len(theirs))]
    names = [Path(path).name for path, _ in theirs.samples]
    assert sorted(names) == sorted(files)
    for gone in (False, True):
        if gone:
            tree.rename(root / "elsewhere")
        ours = ImageFolderRecord(tree)
        assert ours.samples == theirs.samples
        for index, (name, wanted) in enumerate(zip(names, expected, strict=True)):
            found = taken(ours, index)
            assert (name, found.pixels, found.warned) == (name, wanted.pixels, wanted.warned)
            assert_same_error(found.error, wanted.error)
            assert ours.read(index) == files[name]
    said = RecordReader(root / "photos.records").manifest.bad
    return dict(zip(names, expected, strict=True)), {Path(name).name: why for name, why in said.items()}


def png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """Build a PNG, 8-bit RGB, that claims a size and has these chunks and no pixels."""
    parts = [(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)), *chunks, (b"IDAT", b""), (b"IEND", b"")]
    lines = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(lines)


def test_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found, said = compared(tmp_path, {"0.jpg": b"", "1.jpg": jpeg(PHOTO), "2.png": b""})
    assert said == {"0.jpg": "an empty file", "2.png": "an empty file"}
    assert "2 broken images were kept as they are: c/0.jpg: an empty file; c/2.png: an empty file" in caplog.text
    assert isinstance(found["0.jpg"].error, UnidentifiedImageError)
    assert found["1.jpg"].error is None


def test_bomb(tmp_path: Path) -> None:
    found, said = compared(tmp_path, {"error.png": png(50_000, 50_000), "warning.png": png(10_000, 10_000)})
    assert isinstance(found["error.png"].error, Image.DecompressionBombError)
    assert isinstance(found["warning.png"].error, OSError)
    assert [kind for kind, _ in found["warning.png"].warned] == [Image.DecompressionBombWarning]
    assert said == {"error.png": f"DecompressionBombError: {found['error.png'].error}"}


@pytest.mark.parametrize("on_error", ["keep", "skip", "raise"])
def test_preparing_does_not_unpack_a_bomb(tmp_path: Path, on_error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(self: ImageFile.ImageFile) -> None:
        raise AssertionError("preparing unpacks pixels")

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    files = {"c/0.png": png(50_000, 50_000), "c/1.png": png(10_000, 10_000), "c/2.png": encoded(PHOTO, "PNG")}
    tree = write_tree(tmp_path / "photos", files)
    if on_error == "raise":
        with pytest.raises(PrepareError, match=r"c/0.png: DecompressionBombError: Image size \(2500000000 pixels\)"):
            ImageFolderRecord(tree, on_error=on_error)
        return
    manifest = RecordReader(ImageFolderRecord(tree, on_error=on_error).records_path).manifest
    assert list(manifest.bad or manifest.skipped) == ["c/0.png"]
    assert manifest.num_records == (3 if on_error == "keep" else 2)


@pytest.mark.parametrize("limit", [100, 96, 48, 47, None])
def test_limits_of_ones_own(tmp_path: Path, limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Image.MAX_IMAGE_PIXELS` counts as it does with torchvision: warned of above it, refused above its double."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    found, said = compared(tmp_path, {"0.png": encoded(PHOTO.resize((12, 8)), "PNG")})
    kinds = [kind for kind, _ in found["0.png"].warned]
    assert kinds == ([Image.DecompressionBombWarning] if limit == 48 else [])
    assert isinstance(found["0.png"].error, Image.DecompressionBombError) == (limit == 47)
    assert list(said) == (["0.png"] if limit == 47 else [])


def ycck(data: bytes) -> bytes:
    """Let Adobe's mark of a CMYK JPEG say that the inks are encoded otherwise."""
    at = data.index(b"Adobe") + 11
    return data[:at] + b"\2" + data[at + 1 :]


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(PHOTO, "JPEG", exif=exif)


RAMP = np.arange(24 * 16, dtype=np.uint16).reshape(16, 24)
DEEP = Image.fromarray(RAMP * 100)
CMYK = PHOTO.convert("CMYK")
FEW = PHOTO.quantize(16)
SOUND = {
    "png.JPEG": encoded(PHOTO, "PNG"),  # wrong endings
    "jpeg.png": jpeg(PHOTO),
    "gif.jpg": encoded(PHOTO, "GIF"),
    "webp.bmp": encoded(PHOTO, "WEBP"),
    "tiff.webp": encoded(PHOTO, "TIFF"),
    "bmp.tif": encoded(PHOTO, "BMP"),
    "cmyk.jpg": jpeg(CMYK),
    "ycck.jpg": ycck(jpeg(CMYK)),
    "cmyk.tif": encoded(CMYK, "TIFF"),
    "deep.png": encoded(DEEP, "PNG"),
    "deep.tif": encoded(DEEP, "TIFF"),
    "float.tif": encoded(Image.fromarray(RAMP.astype(np.float32)), "TIFF"),
    "int.tif": encoded(Image.fromarray(RAMP.astype(np.int32)), "TIFF"),
    "bits.png": encoded(PHOTO.convert("1"), "PNG"),
    "dark.png": encoded(Image.fromarray(RAMP), "PNG"),
    "one.png": encoded(FEW, "PNG", transparency=3),
    "each.png": encoded(FEW, "PNG", transparency=bytes(range(0, 256, 16))),
    "gif.png": encoded(FEW, "GIF", transparency=2),
    **{f"{mode}.png": encoded(PHOTO.convert(mode), "PNG") for mode in ("RGBA", "LA")},
    **{f"turned-{orientation}.jpg": turned(orientation) for orientation in range(1, 9)},
}


def test_what_pillow_opens_is_rgb(tmp_path: Path) -> None:
    found, said = compared(tmp_path, SOUND)
    assert all(outcome.pixels is not None and outcome.pixels[0] == "RGB" for outcome in found.values())
    assert found["cmyk.jpg"].pixels != found["ycck.jpg"].pixels
    assert found["turned-6.jpg"].pixels == found["turned-1.jpg"].pixels
    assert any("Transparency" in text for _, text in found["each.png"].warned)
    assert not said


@pytest.mark.parametrize("lenient", [False, True])
def test_truncated(tmp_path: Path, lenient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    files = {"0.jpg": cut_image(), "1.png": encoded(PHOTO, "PNG")[:-200], "2.bmp": encoded(PHOTO, "BMP")[:-99]}
    found, said = compared(tmp_path, files)
    assert all((outcome.error is None) == lenient for outcome in found.values())
    assert lenient or "truncated" in str(found["0.jpg"].error)
    assert not said


def psd(width: int, height: int) -> bytes:
    header = b"8BPS" + struct.pack(">H6xHIIHH", 1, 3, height, width, 8, 3)
    return header + bytes(12) + bytes(2) + PHOTO.resize((width, height)).tobytes()


def test_unexpected_formats(tmp_path: Path) -> None:
    kinds = ["GIF", "ICO", "TGA", "PCX", "SGI", "DDS", "JPEG2000", "ICNS", "PDF"]
    files = {f"{kind}.jpg": encoded(PHOTO.resize((32, 32)), kind) for kind in kinds}
    files |= {"PSD.jpg": psd(9, 5), "SVG.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text.jpg": b"<html>" * 50}
    found, said = compared(tmp_path, files)
    unknown = {"PDF.jpg", "SVG.png", "text.jpg"}
    assert said == dict.fromkeys(sorted(unknown), "no image format that Pillow knows")
    assert {name for name, outcome in found.items() if outcome.pixels is None} == unknown


def test_broken_metadata(tmp_path: Path) -> None:
    files = {"exif.jpg": with_broken_exif(jpeg(PHOTO)), "exif.tif": encoded(PHOTO, "TIFF")[:60]}
    bomb = zlib.compress(bytes(80 << 20), 9)  # Pillow unpacks 64 MiB of text at most
    files |= {
        "text.png": png(8, 8, (b"zTXt", b"comment\0\0" + bomb)),
        "iccp.png": png(8, 8, (b"iCCP", b"x\0\0" + bomb)),
    }
    files |= {"crc.png": png(8, 8).replace(b"IDAT", b"IDAX")}
    found, said = compared(tmp_path, files)
    assert found["exif.jpg"].pixels is not None
    assert found["exif.jpg"].warned
    assert "exif.jpg" not in said
    assert isinstance(found["text.png"].error, ValueError)
    assert said["text.png"] == f"ValueError: {found['text.png'].error}"
