"""JPEGs of all kinds, and damaged ones made of them: bits, bytes, segments and markers that are not as they were."""

import io
import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from PIL import Image

from recordzoo.images.turbojpeg import library
from tests.fakes.jpegs import PILLOWS_SUBSAMPLINGS, encode
from tests.fakes.pictures import encoded, picture

Mutation = Callable[[bytes, random.Random], bytes]

# Parts of a file


def segments(data: bytes) -> list[tuple[int, int]]:
    """Return where each marker segment before the scan's data begins and ends, SOS among them."""
    found, at = [], 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        found.append((at, min(end, len(data))))
        if data[at + 1] == 0xDA:
            break
        at = end
    return found


def segment(marker: int, content: bytes) -> bytes:
    """Return a marker segment."""
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2, "big") + content


def without(data: bytes, marker: int) -> bytes:
    """Remove all segments of a kind."""
    for start, end in reversed(segments(data)):
        if data[start + 1] == marker:
            data = data[:start] + data[end:]
    return data


def with_segment(data: bytes, marker: int, content: bytes) -> bytes:
    """Put a segment in front of the others."""
    return data[:2] + segment(marker, content) + data[2:]


# Whole files


def whole_jpegs() -> dict[str, bytes]:
    """Make files of all kinds, each by its name; not all are plain.

    Without libjpeg-turbo 3, two kinds that Pillow does not write are left out.
    """
    rng = np.random.default_rng(8)
    photo, small = picture(rng, 131, 97, 0.4, (20, 20, 60, 50)), picture(rng, 40, 37)
    pixels = np.asarray(photo)
    has_library = library() is not None
    kinds = ("4:4:4", "4:2:2", "4:2:0", "4:4:0", "gray") if has_library else PILLOWS_SUBSAMPLINGS
    exif = Image.Exif()
    exif[0x0112], exif[0x0128], exif[0x011A], exif[0x010F] = 6, 2, 300.0, "a maker"
    two = io.BytesIO()
    photo.save(two, "MPO", save_all=True, append_images=[photo.rotate(90)])
    resource = b"8BIM\x03\xed\x00\x00\x00\x00\x00\x10" + bytes([0, 72, 0, 0, 0, 1, 0, 1] * 2)
    common = encode(pixels, "4:2:0")
    return {
        **{name: encode(pixels, name) for name in kinds},
        **{f"{name} small": encode(np.asarray(small), name, quality=60) for name in kinds},
        "restarts": encode(pixels, "4:2:0", restart_blocks=3),
        "restarts of each block": encode(np.asarray(small), "4:4:4", restart_blocks=1),
        "restarts of each row": encode(pixels, "4:2:2", restart_rows=1),
        "gray restarts": encode(pixels, "gray", restart_blocks=7),
        "own tables": encoded(photo, "JPEG", optimize=True, quality=70),
        "coarse": encoded(photo, "JPEG", quality=10),
        "fine": encoded(photo, "JPEG", quality=100, subsampling=0),
        "progressive": encoded(photo, "JPEG", progressive=True),
        "CMYK": encoded(photo.convert("CMYK"), "JPEG"),
        "RGB": encoded(photo, "JPEG", keep_rgb=True),
        **({"arithmetic": encode(pixels, arithmetic=1)} if has_library else {}),
        "EXIF": encoded(photo, "JPEG", exif=exif, quality=90),
        "profile": encoded(photo, "JPEG", icc_profile=rng.bytes(700), comment=b"a comment"),
        "Photoshop": with_segment(common, 0xED, b"Photoshop 3.0\0" + resource),
        "two images": two.getvalue(),
        "MJPEG": without(common, 0xC4),
        "other tables, MJPEG": without(encoded(photo, "JPEG", optimize=True), 0xC4),
        "without DQT": without(common, 0xDB),
        "PNG": encoded(small, "PNG"),
    }


# Changes


def _place(data: bytes, rng: random.Random) -> int:
    """Choose a place: in the header, or in the scan, or near the end."""
    start = scan_start(data)
    low, high = rng.choice([(2, start), (start, len(data)), (max(0, len(data) - 40), len(data))])
    return rng.randrange(low, max(low + 1, high))


def scan_start(data: bytes) -> int:
    """Return where the scan's data begins; in the middle, if there is none."""
    found = segments(data)
    return found[-1][1] if found and data[found[-1][0] + 1] == 0xDA else len(data) // 2


def _flip(data: bytes, rng: random.Random, most: int, where: str) -> bytes:
    changed, start = bytearray(data), scan_start(data)
    low, high = {"header": (2, start), "scan": (start, len(data)), "all": (0, len(data))}[where]
    for _ in range(rng.randint(1, most) if low < high else 0):
        changed[rng.randrange(low, high)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    at = _place(data, rng)
    value = rng.choice([b"\xff", b"\0", b"\xff\xff", rng.randbytes(rng.randint(1, 20)), b"\xff\xd9", b"\xff\xd8"])
    return data[:at] + value + data[at + len(value) :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    """Insert bytes or a marker; also behind the end."""
    at = rng.choice([_place(data, rng), len(data)])
    marker = bytes([0xFF, rng.choice([rng.randrange(256), 0xD0, 0xD9, 0xD8, 0x80])])
    content = rng.choice([b"", segment(0, rng.randbytes(rng.randint(0, 20)))[2:], b"\x00\x04"])
    other = rng.choice([b"\xff", b"\0", b"\xff\xff\xff", rng.randbytes(rng.randint(1, 90))])
    return data[:at] + rng.choice([marker + content, other]) + data[at:]


def _delete(data: bytes, rng: random.Random) -> bytes:
    at = _place(data, rng)
    return data[:at] + data[at + rng.randint(1, rng.choice([2, 30, 2000])) :]


def _cut(data: bytes, rng: random.Random) -> bytes:
    end = rng.choice([rng.randrange(len(data) + 1), max(0, len(data) - rng.randint(1, 30))])
    return data[:end] + rng.choice([b"", b"\xff\xd9", b"\xff", b"\0\0"])


def _segments(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Remove, repeat, move, exchange or add a segment."""
    found = segments(data)
    if not found:
        return data
    parts = [data[start:end] for start, end in found]
    at = rng.randrange(len(parts))
    other = rng.choice(others)
    foreign = [other[start:end] for start, end in segments(other)]
    what = rng.choice(["remove", "repeat", "move", "replace", "add", "split"])
    if what == "remove":
        del parts[at]
    elif what == "repeat":
        parts.insert(rng.randrange(len(parts) + 1), parts[at])
    elif what == "move":
        parts.insert(rng.randrange(len(parts)), parts.pop(at))
    elif what == "split":  # a fill byte, or something that is none, between two segments
        parts.insert(at, rng.choice([b"\xff", b"\xff\xff", b"\0", b"\xff\x00", b"ab", b"\xff\xd0", b"\xff\x01"]))
    elif foreign and what == "replace":
        same = [part for part in foreign if part[1] == parts[at][1]]
        parts[at] = rng.choice(same or foreign)
    elif foreign:
        parts.insert(at, rng.choice(foreign))
    return data[: found[0][0]] + b"".join(parts) + data[found[-1][1] :]


def _field(data: bytes, rng: random.Random) -> bytes:
    """Change one of the first bytes of a segment: its length, a table's number, a size, a sampling factor."""
    found = segments(data)
    if not found:
        return data
    start, end = rng.choice(found)
    at = rng.randrange(start, min(end, start + 24))
    value = rng.choice([data[at] + 1, data[at] - 1, data[at] ^ 0x10, rng.randrange(256), rng.randrange(4)]) % 256
    return data[:at] + bytes([value]) + data[at + 1 :]


def _restarts(data: bytes, rng: random.Random) -> bytes:
    """Remove, repeat, renumber or add a restart marker."""
    start = scan_start(data)
    places = [at for at in range(start, len(data) - 1) if data[at] == 0xFF and 0xD0 <= data[at + 1] <= 0xD7]
    at = rng.choice(places or [rng.randrange(start, len(data) + 1)])
    marker = bytes([0xFF, rng.randrange(0xD0, 0xD8)])
    old = data[at : at + 2] if places else b""
    new = rng.choice([b"", old + old, marker, old + marker, b"\xff" + old])
    return data[:at] + new + data[at + len(old) :]


class Mutants:
    """An endless stream of files; one in twenty is as it was.

    Args:
        seed: The same files for the same seed.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._files = list(whole_jpegs().values())
        self._mutations: list[Mutation] = [
            partial(_flip, most=3, where="header"),
            partial(_flip, most=50, where="scan"),
            partial(_flip, most=8, where="all"),
            _overwrite,
            *[_insert] * 3,
            _delete,
            _cut,
            *[partial(_segments, others=self._files)] * 2,
            _field,
            _restarts,
        ]

    def __iter__(self) -> Iterator[bytes]:
        while True:
            data = self._rng.choice(self._files)
            for _ in range(self._rng.choices([0, 1, 2, 3], [1, 13, 4, 2])[0]):
                data = self._rng.choice(self._mutations)(data, self._rng)
            yield data
