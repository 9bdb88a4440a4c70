"""JPEGs of kinds that Pillow does not write: by libjpeg-turbo 3 itself, or bytes changed by hand.

Without libjpeg-turbo 3, `encode` makes the kinds that Pillow can write.
"""

import ctypes
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recordzoo.images.turbojpeg import library
from tests.fakes.pictures import encoded

_PARAMETERS = {  # TJPARAM_...
    "quality": 3,
    "subsampling": 4,
    "colorspace": 8,
    "progressive": 12,
    "arithmetic": 14,
    "lossless": 15,
    "restart_blocks": 18,
    "restart_rows": 19,
}
SUBSAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2, "gray": 3, "4:4:0": 4, "4:1:1": 5, "4:4:1": 6}
PILLOWS_SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0", "gray")
_PILLOWS_PARAMETERS = {"restart_blocks": "restart_marker_blocks", "restart_rows": "restart_marker_rows"}
YCCK = 4
_RGB, _CMYK = 0, 11  # TJPF_...


def encode(pixels: NDArray[np.uint8], subsampling: str = "4:2:0", quality: int = 90, **parameters: int) -> bytes:
    """Encode pixels, uint8 [H, W, 3] (of CMYK [H, W, 4]), with libjpeg-turbo's own parameters."""
    found = library()
    if found is None:
        return _encoded_by_pillow(pixels, subsampling, quality, **parameters)
    handle, memory, size = ctypes.c_void_p(found.tj3Init(0)), ctypes.c_void_p(), ctypes.c_size_t()
    try:
        for name, value in {"subsampling": SUBSAMPLINGS[subsampling], "quality": quality, **parameters}.items():
            assert not found.tj3Set(handle, _PARAMETERS[name], value), f"{name}={value}"
        pixels = np.ascontiguousarray(pixels)
        height, width, channels = pixels.shape
        pointer, number = ctypes.c_void_p, ctypes.c_int
        compress = found["tj3Compress8"]
        compress.argtypes = (pointer, pointer, number, number, number, number, pointer, pointer)
        kind = _CMYK if channels == 4 else _RGB
        failed = compress(handle, pixels.ctypes.data, width, 0, height, kind, ctypes.byref(memory), ctypes.byref(size))
        found.tj3GetErrorStr.restype = ctypes.c_char_p
        assert not failed, found.tj3GetErrorStr(handle)
        return ctypes.string_at(memory, size.value)
    finally:
        with suppress(AttributeError):
            found.tj3Free.argtypes = (ctypes.c_void_p,)
            found.tj3Free(memory)
        found.tj3Destroy(handle)


def _encoded_by_pillow(pixels: NDArray[np.uint8], subsampling: str, quality: int, **parameters: int) -> bytes:
    for name in parameters:
        assert name in _PILLOWS_PARAMETERS, f"{name}: libjpeg-turbo 3 is not installed: pip install turbojpeg"
    assert subsampling in PILLOWS_SUBSAMPLINGS, f"{subsampling}: Pillow does not write it: pip install turbojpeg"
    options = {_PILLOWS_PARAMETERS[name]: value for name, value in parameters.items()}
    if subsampling == "gray":
        return encoded(Image.fromarray(pixels).convert("L"), "JPEG", quality=quality, **options)
    return encoded(Image.fromarray(pixels), "JPEG", quality=quality, subsampling=subsampling, **options)


def frame_header(data: bytes) -> int:
    """Return where the marker of the frame header is (baseline, extended or progressive)."""
    at = 2
    while data[at + 1] not in (0xC0, 0xC1, 0xC2, 0xC9):
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return at


def with_size(data: bytes, width: int, height: int) -> bytes:
    """Let a JPEG's header claim another size."""
    at = frame_header(data) + 5
    return data[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 4 :]


def with_factors(data: bytes, factors: int) -> bytes:
    """Let the first component of a JPEG have other sampling factors; of a gray one that changes nothing."""
    at = frame_header(data) + 11
    return data[:at] + bytes([factors]) + data[at + 1 :]


def scan_start(data: bytes) -> int:
    """Return where the entropy-coded data of the first scan begins."""
    at = data.index(b"\xff\xda")
    return at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
