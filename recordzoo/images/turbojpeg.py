"""libjpeg-turbo 3 through ctypes: decode a region of a baseline JPEG without the GIL, also at reduced size.

The functions: https://libjpeg-turbo.org/Documentation. Older libraries lack them and are not used. The wheel
`turbojpeg` carries 2.1.92, the last version before 3.0; a newer library of the system goes first.
"""

import contextlib
import ctypes
import ctypes.util
import functools
import importlib.util
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.settings import how_to_install
from recordzoo.base.text import PLATFORM

_DECOMPRESS = 1  # TJINIT_DECOMPRESS
_RGB = 0  # TJPF_RGB
_SUBSAMPLING, _WIDTH, _HEIGHT, _PRECISION, _COLORSPACE = 4, 5, 6, 7, 8  # TJPARAM_...
_STOP_ON_WARNING, _PROGRESSIVE, _ARITHMETIC, _LOSSLESS = 0, 12, 14, 15
_COLORS = (1, 2)  # TJCS_YCbCr, TJCS_GRAY
_MCU_WIDTH = {0: 8, 1: 16, 2: 16, 3: 8, 4: 8}
"""Width in pixels of a minimum coded unit for 4:4:4, 4:2:2, 4:2:0, grayscale and 4:4:0."""

_IN_WHEELS = ("turbojpeg.libs/*turbojpeg*", "turbojpeg.dylibs/*turbojpeg*", "turbojpeg-*.dll")
"""Paths of the library in the wheels of `turbojpeg`: Linux, macOS, Windows."""

_SYSTEMS = "libturbojpeg.so.0"
"""Linux' name of every version of the library. (`find_library` would start other programs, and takes up to 0.2 s.)"""

_VERSION = re.compile(rb"libjpeg-turbo version (\d{1,4}(?:\.\d{1,4}){1,3})")

_MARGIN = 4
"""Pixels decoded around a region: its edge needs neighbours for the interpolation of chroma.
Without the margin, 2 of 200 random crops of photographs differed from Pillow's by up to 11."""


class UnusualImage(Exception):
    """A JPEG that this decoder leaves to Pillow: progressive, CMYK, 12 bits, or with bad Huffman codes."""


class Header(NamedTuple):
    """The size of a JPEG and the width of its minimum coded units, in pixels."""

    width: int
    height: int
    mcu_width: int


Region = tuple[int, int, int, int, int, int]
"""Width and height of the decoded region; left, top, width and height of the requested box in it, in pixels."""


class _Scale(ctypes.Structure):
    _fields_ = (("numerator", ctypes.c_int), ("denominator", ctypes.c_int))


class _Region(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int), ("width", ctypes.c_int), ("height", ctypes.c_int))


class _Place(ctypes.Structure):  # Dl_info of <dlfcn.h>
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


_LONG = "tj3Decompress8"

_WHOLE = (0, 0, 0, 0)

Box = tuple[int, int, int, int]
"""Left, top, width and height, in pixels."""


class Decompressor:
    """Decodes plain JPEGs (`recordzoo.recipes.recipe`), one at a time, in one thread at a time.

    libjpeg keeps the tables of an image: it would decode a later image without tables with them.

    Attributes:
        handle: The first argument of the library's functions.

    Raises:
        OSError: libjpeg-turbo 3 is missing.
    """

    handle: int | None
    _data: bytes | None  # the file of the last header
    _denominator: int  # last value set
    _region: tuple[int, int, int, int]  # as above

    def __init__(self) -> None:
        found = library()
        if found is None:
            raise OSError("no libjpeg-turbo 3")
        self._library, self._thread = found, threading.get_ident()
        self._begin()

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._library.tj3Destroy(self.handle)

    def header(self, data: bytes) -> Header:
        """Read the header.

        Raises:
            UnusualImage: Pillow must decode it.
        """
        self._data = None
        self._checked(self._library.tj3DecompressHeader(self.handle, data, len(data)))
        get, handle = self._library.tj3Get, self.handle
        mcu_width = _MCU_WIDTH.get(get(handle, _SUBSAMPLING))
        if mcu_width is None or get(handle, _COLORSPACE) not in _COLORS or get(handle, _PRECISION) != 8:
            raise UnusualImage
        if get(handle, _PROGRESSIVE) or get(handle, _ARITHMETIC) or get(handle, _LOSSLESS):
            raise UnusualImage
        self._data = data
        return Header(get(handle, _WIDTH), get(handle, _HEIGHT), mcu_width)

    def prepare(self, data: bytes, header: Header, box: Box | None = None, denominator: int = 1) -> Region:
        """Set the decoder to a box: the next `tj3Decompress8` decodes the returned region.

        Args:
            data: The file.
            header: The file's header, from this or another decompressor.
            box: A box inside the stored image, in its pixels. Default: the whole image.
            denominator: 1, 2, 4 or 8: decode at 1 / denominator of the size, from fewer coefficients. The box is then
                rounded outwards.

        Raises:
            UnusualImage: The decoder warned of something.
        """
        if self._data is not data and self.header(data) != header:
            raise UnusualImage
        full_width, full_height = -(-header.width // denominator), -(-header.height // denominator)
        self._scale(denominator)
        if box is None:
            self._crop(_WHOLE)
            return full_width, full_height, 0, 0, full_width, full_height
        mcu_width = header.mcu_width // denominator
        left, top = box[0] // denominator, box[1] // denominator
        right, bottom = -(-(box[0] + box[2]) // denominator), -(-(box[1] + box[3]) // denominator)
        x = max(0, left - _MARGIN) // mcu_width * mcu_width
        y = max(0, top - _MARGIN)
        width, height = min(full_width, right + _MARGIN) - x, min(full_height, bottom + _MARGIN) - y
        self._crop((x, y, width, height))
        return width, height, left - x, top - y, right - left, bottom - top

    def region(self, data: bytes, header: Header, box: Box | None = None, denominator: int = 1) -> NDArray[np.uint8]:
        """Decode the pixels of a box; takes the arguments of `prepare`.

        Returns:
            RGB pixels, uint8 [height, width, 3]; maybe a view.

        Raises:
            UnusualImage: The decoder warned of something.
        """
        decoded_width, decoded_height, left, top, width, height = self.prepare(data, header, box, denominator)
        pixels = np.empty((decoded_height, decoded_width, 3), np.uint8)
        memory = ctypes.byref(ctypes.c_char.from_buffer(pixels.data))  # faster than pixels.ctypes
        self._checked(self._library.tj3Decompress8(self.handle, data, len(data), memory, 3 * decoded_width, _RGB))
        return pixels[top : top + height, left : left + width]

    def is_ready_for(self, data: bytes) -> bool:
        """Whether it read this file's header last, and was created in this thread."""
        return self._data is data and self._thread == threading.get_ident()

    def begin_again(self) -> None:
        """Replace the handle: after some errors libjpeg-turbo rejects every further image."""
        self._library.tj3Destroy(self.handle)
        self._begin()

    # The library keeps its settings. Non-default values are still set for each image: a library that fell back to the
    # defaults would otherwise write outside of the pixels.

    def _scale(self, denominator: int) -> None:
        if denominator != 1 or self._denominator != 1:
            self._checked(self._library.tj3SetScalingFactor(self.handle, _Scale(1, denominator)))
            self._denominator = denominator

    def _crop(self, region: tuple[int, int, int, int]) -> None:
        if region != _WHOLE or self._region != _WHOLE:
            self._checked(self._library.tj3SetCroppingRegion(self.handle, _Region(*region)))
            self._region = region

    def _checked(self, failed: int) -> None:
        """Raise if a call failed: with another image's region, the library would write outside of the pixels."""
        if failed:
            self.begin_again()
            raise UnusualImage

    def _begin(self) -> None:
        self._data, self._denominator, self._region = None, 1, _WHOLE
        self.handle = self._library.tj3Init(_DECOMPRESS)
        if not self.handle:
            raise MemoryError("libjpeg-turbo cannot make a decompressor")
        self._library.tj3Set(self.handle, _STOP_ON_WARNING, 1)


def decompress_address() -> int:
    """Return the address of `tj3Decompress8` for compiled code; 0 without libjpeg-turbo 3."""
    found = library()
    return ctypes.cast(getattr(found, _LONG), ctypes.c_void_p).value or 0 if found else 0


class Library(ctypes.CDLL):
    """libjpeg-turbo 3, loaded.

    Args:
        path: The file, or its name for the system's loader.
        origin: Where it is from, for people.

    Attributes:
        version: (3, 1, 2); () if the file does not say.

    Raises:
        OSError: It is missing.
        AttributeError: It is older than 3.
    """

    def __init__(self, path: str, origin: str) -> None:
        super().__init__(path)
        self.origin = origin
        # Short calls keep the GIL: they are shorter than another thread's wake-up.
        short = ctypes.PyDLL(path)
        handle, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
        for name, arguments in {
            "tj3Init": (number,),
            "tj3Destroy": (handle,),
            "tj3Get": (handle, number),
            "tj3Set": (handle, number, number),
            "tj3DecompressHeader": (handle, ctypes.c_char_p, size),
            "tj3SetScalingFactor": (handle, _Scale),
            "tj3SetCroppingRegion": (handle, _Region),
            _LONG: (handle, ctypes.c_char_p, size, handle, number, number),
        }.items():
            function = getattr(self if name == _LONG else short, name)
            function.argtypes = arguments
            setattr(self, name, function)
        self.tj3Init.restype = handle
        match = _VERSION.search(Path(self._file()).read_bytes())
        self.version = tuple(map(int, match[1].split(b"."))) if match else ()

    def __str__(self) -> str:
        return f"libjpeg-turbo {'.'.join(map(str, self.version)) or '3'} of {self.origin}"

    def _file(self) -> str:
        """Return the path of the file, of which the system's loader may have got only a name."""
        if os.path.isabs(self._name):
            return self._name
        place = _Place()
        ctypes.CDLL(None).dladdr(self.tj3Init, ctypes.byref(place))
        return os.fsdecode(place.file)


@functools.cache
def library() -> Library | None:
    """Load the newest libjpeg-turbo 3, of the wheel `turbojpeg` or the system; None if there is none."""
    found: list[Library] = []
    for path, origin in candidates():
        with contextlib.suppress(OSError, AttributeError):  # missing, or older than 3
            found.append(Library(path, origin))
    return max(found, key=lambda each: each.version, default=None)


def how_to_install_library() -> str:
    """Return the command that installs libjpeg-turbo 3 here, or name the system's package."""
    # The wheel would hide PyTurboJPEG, a module of the same name.
    has_module = importlib.util.find_spec("turbojpeg") is not None
    return "the system's package of libjpeg-turbo 3" if has_module else how_to_install("turbojpeg")


def candidates() -> Iterator[tuple[str, str]]:
    """Yield the libraries to try, each with its origin: that of the package turbojpeg, then the system's."""
    spec = importlib.util.find_spec("turbojpeg")
    if spec is not None and spec.origin:
        folder = Path(spec.origin).parent
        for pattern in _IN_WHEELS:
            for path in sorted(folder.glob(pattern)):
                yield os.fspath(path), "the package turbojpeg"
    if system := _SYSTEMS if PLATFORM == "linux" else ctypes.util.find_library("turbojpeg"):
        yield system, "the system"
