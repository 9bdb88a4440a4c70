"""Detect plain JPEGs: complete, and decodable with only their own tables.

A decoder may stop a plain JPEG after the last row of a crop: no data after that row can make Pillow, which reads the
whole file, refuse the image. All other images are left to Pillow. The answer depends only on the file (and on Pillow's
check of its metadata), so it is determined once, when a record set is written, and stored as a mark.

Bad Huffman codes do not matter here: libjpeg warns of them, and Pillow ignores the warning. The decoder of crops stops
at a warning and leaves the image to Pillow.
"""

import itertools
import re
from typing import NamedTuple

from PIL import Image

from recordzoo.recipes.images import open_image, problem_of, quiet

UNKNOWN, PLAIN, OTHER = range(3)
"""Marks of a value."""

_START = b"\xff\xd8\xff"
_DQT, _DHT, _DRI, _SOS, _EOI, _COM, _RST0 = 0xDB, 0xC4, 0xDD, 0xDA, 0xD9, 0xFE, 0xD0
_SOF = (0xC0, 0xC1)  # Huffman-coded, sequential
_APP = range(0xE0, 0xF0)
_MARKER = re.compile(rb"\xff[^\x00]")
"""In entropy-coded data, where a byte FF is followed by 00."""

_METADATA = (b"JFIF\0", 14), (b"ICC_PROFILE\0", 14), (b"Adobe", 12)
"""Starts of segments of which Pillow reads fixed places, and how far; it takes them with any content."""

_FORMATS = ("JPEG", "MPO")  # as Pillow calls them
_MAX_BLOCKS = 1 << 20
_MAX_DC_CATEGORY = 11
"""More blocks of one component, each 2,047 brighter than the last, would overflow libjpeg's sum (which is an error in
later versions); higher categories, which no encoder of 8 bits needs, sooner."""


class _Broken(Exception):
    """The header of the file is not that of a plain JPEG."""


class _Component(NamedTuple):
    """A component of the frame header: its name, sampling factors and quantisation table."""

    name: int
    across: int
    down: int
    table: int


class Look(NamedTuple):
    """The result of checking an encoded image: why no decoder accepts it (None if one does), and its mark."""

    problem: str | None
    mark: int


def look(data: bytes, *, decode: bool = False) -> Look:
    """Look at the header of an encoded image or, if `decode`, at all of it; Pillow's warnings are silenced.

    Pillow opens the image once. It is not asked about most plain JPEGs: their segments prove that it opens them.
    """
    header = _header_of(data)
    if header is not None and header.is_surely_opened and not decode:
        return Look(None, PLAIN)
    mark = OTHER
    try:
        with quiet(), open_image(data) as image:
            if header is not None and image.format in _FORMATS:
                mark = PLAIN
            if decode:
                image.load()
    except Exception as err:  # noqa: BLE001  # Pillow's format plug-ins raise anything on hostile headers
        return Look(problem_of(err, data), mark)
    return Look(None, mark)


def mark_of(data: bytes) -> int:
    """Return the mark of an encoded image, `PLAIN` or `OTHER`, in less than a tenth of the decoding time."""
    return PLAIN if is_plain_jpeg(data) else OTHER


def is_plain_jpeg(data: bytes) -> bool:
    """Whether an image is a plain JPEG, as ``docs/format.md`` defines it."""
    header = _header_of(data)
    return header is not None and (header.is_surely_opened or _is_opened(data))


def _header_of(data: bytes) -> "_Header | None":
    """Read a file whose segments and markers are those of a plain JPEG; None if they are not."""
    if not data.startswith(_START):
        return None
    header = _Header(data)
    try:
        start, num_restarts = header.read()
    except (_Broken, IndexError):
        return None
    return header if _ends_well(data, start, num_restarts) else None


class _Header:
    """The segments before the entropy-coded data.

    Args:
        data: The file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._quantisation: set[int] = set()
        self._huffman: set[int] = set()  # class and number, as DHT has them
        self._components: list[_Component] = []
        self._size = 0, 0
        self._restart_interval = 0
        self._has_other_metadata = False

    @property
    def is_surely_opened(self) -> bool:
        """Whether Pillow, without a warning, opens a file of these segments: it has no other check."""
        limit = Image.MAX_IMAGE_PIXELS
        return not self._has_other_metadata and (limit is None or self._size[0] * self._size[1] <= limit)

    def read(self) -> tuple[int, int]:
        """Return where the entropy-coded data begins, and how many restart markers are in it."""
        data, at = self._data, 2
        while True:
            marker, length = data[at + 1], data[at + 2] << 8 | data[at + 3]
            end = at + 2 + length
            if data[at] != 0xFF or length < 2 or end > len(data):
                raise _Broken
            segment = data[at + 4 : end]
            if marker == _SOS:
                self._check_scan(segment)
                return end, self._num_restarts()
            self._note(marker, segment)
            at = end

    def _note(self, marker: int, segment: bytes) -> None:
        if marker in _SOF:
            self._note_frame(segment)
        elif marker == _DQT:
            self._note_quantisation(segment)
        elif marker == _DHT:
            self._note_huffman(segment)
        elif marker == _DRI:
            _check(len(segment) == 2)
            self._restart_interval = segment[0] << 8 | segment[1]
        elif marker in _APP:
            if not any(segment.startswith(start) and len(segment) >= length for start, length in _METADATA):
                self._has_other_metadata = True
        else:
            _check(marker == _COM)

    def _note_frame(self, segment: bytes) -> None:
        count = segment[5]
        _check(not self._components and segment[0] == 8 and count in (1, 3) and len(segment) == 6 + 3 * count)
        self._size = segment[3] << 8 | segment[4], segment[1] << 8 | segment[2]
        self._components = [
            _Component(name, factors >> 4, factors & 15, table)
            for name, factors, table in zip(segment[6::3], segment[7::3], segment[8::3], strict=True)
        ]
        _check(min(self._size) > 0 and len({each.name for each in self._components}) == count)
        _check(all(1 <= each.across <= 4 and 1 <= each.down <= 4 for each in self._components))

    def _note_quantisation(self, segment: bytes) -> None:
        at = 0
        while at < len(segment):
            precision, number = segment[at] >> 4, segment[at] & 15
            _check(precision < 2 and number < 4)
            self._quantisation.add(number)
            at += 1 + 64 * (precision + 1)
        _check(at == len(segment))

    def _note_huffman(self, segment: bytes) -> None:
        at = 0
        while at < len(segment):
            table, values = segment[at], at + 17
            count = sum(segment[at + 1 : values])
            at = values + count
            _check(table & 0xEC == 0 and count <= 256 and at <= len(segment))
            _check(table >= 16 or max(segment[values:at], default=0) <= _MAX_DC_CATEGORY)
            self._huffman.add(table)

    def _check_scan(self, segment: bytes) -> None:
        count = len(self._components)
        _check(count > 0 and len(segment) == 4 + 2 * count and segment[0] == count and segment[-3:] == b"\x00\x3f\x00")
        for component, name, tables in zip(self._components, segment[1:-3:2], segment[2:-3:2], strict=True):
            _check(name == component.name and component.table in self._quantisation)
            _check(tables >> 4 in self._huffman and tables & 15 | 16 in self._huffman)

    def _num_restarts(self) -> int:
        """Return how many restart markers the scan has; its units are blocks if there is one component."""
        most_across = max(each.across for each in self._components)
        most_down = max(each.down for each in self._components)
        if len(self._components) == 1:
            most_across = most_down = 1
        width, height = self._size
        num_units = -(-width // (8 * most_across)) * -(-height // (8 * most_down))
        _check(num_units * most_across * most_down <= _MAX_BLOCKS)
        return -(-num_units // self._restart_interval) - 1 if self._restart_interval else 0


def _check(is_right: bool) -> None:
    if not is_right:
        raise _Broken


def _ends_well(data: bytes, start: int, num_restarts: int) -> bool:
    """Whether the markers from a place on are the restart markers, in their order, and EOI."""
    found = _MARKER.finditer(data, start)
    expected = itertools.chain((_RST0 + number % 8 for number in range(num_restarts)), [_EOI])
    return all((marker := next(found, None)) is not None and marker[0][1] == each for each in expected)


def _is_opened(data: bytes) -> bool:
    """Whether Pillow opens it as a JPEG. It also reads the metadata, and refuses an image for some kinds of damage."""
    try:
        with open_image(data) as image:
            return image.format in _FORMATS
    except Exception:  # noqa: BLE001  # Pillow's readers of metadata raise anything
        return False
