"""libjpeg-turbo through ctypes: regions are Pillow's pixels; of images in any order; nothing unusual is decoded."""

import importlib.util
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recordzoo.images import turbojpeg
from recordzoo.images.decode import decode_rgb
from recordzoo.images.turbojpeg import Decompressor, Header, UnusualImage, library
from tests.fakes.jpegs import encode, with_factors
from tests.fakes.pictures import encoded, picture
from tests.running import printed

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
    header = Header(160, 140, 16)
    data = encode(PIXELS)
    assert decompressor.header(data).width == 133
    with pytest.raises(UnusualImage):
        decompressor.region(data, header, box)


@pytest.fixture
def searched() -> Iterator[None]:
    library.cache_clear()
    yield
    library.cache_clear()


WHEELS = "the package turbojpeg"
has_package = pytest.mark.skipif(importlib.util.find_spec("turbojpeg") is None, reason="copies the package's library")


def copied(path: Path, version: str) -> str:
    """Copy the library under another version, no longer than its own."""
    original = next(turbojpeg.candidates())[0]
    found = turbojpeg.Library(original, "")
    old = b"libjpeg-turbo version " + ".".join(map(str, found.version)).encode()
    new = b"libjpeg-turbo version " + version.encode()
    data = Path(original).read_bytes()
    assert data.count(old) == 1
    assert len(new) <= len(old)
    path.write_bytes(data.replace(old, new.ljust(len(old), b"\0")))
    return str(path)


@has_package
@pytest.mark.parametrize(
    ("wheels", "systems", "found"),
    [
        ("2.1.92", "3.0.00", "libjpeg-turbo 3.0.0 of the system"),
        ("2.1.92", "too old", f"libjpeg-turbo 2.1.92 of {WHEELS}"),
        ("silent", "missing", f"libjpeg-turbo 3 of {WHEELS}"),
        ("missing", "3.1.10", "libjpeg-turbo 3.1.10 of the system"),
    ],
)
def test_the_newest_library_is_used(
    wheels: str, systems: str, found: str, searched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version is a copy of the real library; one that is too old has none of the functions."""

    def made(name: str, version: str) -> str:
        if version == "too old":
            return str(sys.modules["_ctypes"].__file__)
        return str(tmp_path / name) if version == "missing" else copied(tmp_path / name, f"{version:->6}")

    there = [(made("a.so", wheels), WHEELS), (made("b.so", systems), "the system")]
    monkeypatch.setattr(turbojpeg, "candidates", lambda: iter(there))
    assert str(library()) == found
    header = Decompressor().header(FILES["4:2:0 l"])
    assert (header.width, header.height) == (133, 97)


@has_package
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere find_library returns a path")
def test_the_systems_library_is_found_by_its_name(tmp_path: Path) -> None:
    copied(tmp_path / "libturbojpeg.so.0", "9.1.9")
    code = "from recordzoo.images.turbojpeg import library; print(library())"
    assert printed(code, LD_LIBRARY_PATH=str(tmp_path)) == "libjpeg-turbo 9.1.9 of the system\n"


@pytest.mark.parametrize(
    "name", ["turbojpeg.libs/libturbojpeg-1a2b.so.0.3", "turbojpeg.dylibs/libturbojpeg.0.dylib", "turbojpeg-1a2b.dll"]
)
def test_where_the_wheels_have_the_library(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    (tmp_path / "turbojpeg.py").touch()
    spec = importlib.util.spec_from_file_location("turbojpeg", tmp_path / "turbojpeg.py")
    monkeypatch.setattr(turbojpeg.importlib.util, "find_spec", lambda _: spec)
    assert next(turbojpeg.candidates()) == (str(tmp_path / name), WHEELS)
