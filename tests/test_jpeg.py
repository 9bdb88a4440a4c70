"""Plain JPEGs are whole and have their own tables. Every other file here lacks one of these or breaks a rule."""

import itertools
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recordzoo import ImageFolderRecord, RecordReader, RecordWriter, convert
from recordzoo.recipes.recipe import OTHER, PLAIN, Look, is_plain_jpeg, look, mark_of, open_image, problem_of, quiet
from tests import jpegs
from tests.fakes.folder import write_tree
from tests.fakes.jpeg_mutants import Mutants, segment, segments, whole_jpegs, with_segment, without
from tests.fakes.jpegs import encode, frame_header, scan_start, with_factors, with_size
from tests.fakes.pictures import jpeg, picture, with_broken_exif

FILES = whole_jpegs()
NOT_PLAIN = {"progressive", "CMYK", "arithmetic", "MJPEG", "other tables, MJPEG", "without DQT", "PNG"}
PHOTO = picture(np.random.default_rng(5), 60, 50)
JPEG = jpeg(PHOTO)
RESTARTS = encode(np.asarray(PHOTO), "4:2:0", restart_blocks=1)  # 4 x 4 units: 15 markers
END = b"\xff\xd9"
JFIF_END = segments(JPEG)[0][1]


def at(data: bytes, place: int, change: bytes) -> bytes:
    return data[:place] + change + data[place + len(change) :]


def in_segment(data: bytes, marker: int, place: int, change: bytes) -> bytes:
    """Change bytes of the first segment of a kind, counted from behind its length."""
    start = next(start for start, _ in segments(data) if data[start + 1] == marker)
    return at(data, start + 4 + place, change)


def before_end(change: bytes) -> bytes:
    return JPEG[:-2] + change + END


def restart(number: int) -> int:
    """Where a restart marker of `RESTARTS` is."""
    place = scan_start(RESTARTS) - 2
    for each in range(number + 1):
        place = RESTARTS.index(bytes([0xFF, 0xD0 + each % 8]), place + 2)
    return place


DHT = b"".join(JPEG[start:end] for start, end in segments(JPEG) if JPEG[start + 1] == 0xC4)
STILL_PLAIN = {
    "garbage behind": JPEG + b"garbage",
    "an end behind": JPEG + END,
    "another image behind": JPEG + RESTARTS,
    "a segment of another kind": with_segment(JPEG, 0xE7, b"anything" * 9),
    "tables that nobody needs": with_segment(JPEG, 0xC4, b"\x03" + bytes(15) + b"\x01" + b"\x05"),
    "a table of 16 bits": with_segment(JPEG, 0xDB, b"\x13" + bytes(range(1, 129))),
    "tables once more": JPEG[:JFIF_END] + DHT + JPEG[JFIF_END:],
    "extended": at(JPEG, frame_header(JPEG) + 1, b"\xc1"),
    "other factors of a gray one": with_factors(encode(np.asarray(PHOTO), "gray", restart_blocks=1), 0x22),
    "bad codes": at(JPEG, scan_start(JPEG) + 9, b"\xfe" * 40),
    "data left out": JPEG[: scan_start(JPEG) + 20] + END,
    "no data": JPEG[: scan_start(JPEG)] + END,
    "other metadata": with_segment(JPEG, 0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"),
}


BROKEN = {
    "nothing": b"",
    "a start": b"\xff\xd8\xff",
    "no frame": b"\xff\xd8" + JPEG[segments(JPEG)[-1][0] :],
    "no scan": JPEG[: segments(JPEG)[-1][0]] + END,
    # Tables that the scan refers to, and the file does not define.
    "another quantisation table": at(JPEG, frame_header(JPEG) + 4 + 8, b"\x03"),
    "another DC table": in_segment(JPEG, 0xDA, 2, b"\x30"),
    "a Huffman table of another number": in_segment(JPEG, 0xC4, 0, b"\x02"),
    "a Huffman table's marker, one bit off": JPEG.replace(b"\xff\xc4", b"\xff\xcc", 1),
    "tables behind the scan": without(JPEG, 0xC4)[:-2] + DHT + END,
    # Segments that are not as they must be.
    "a quantisation table too short": with_segment(JPEG, 0xDB, b"\x00" * 64),
    "a quantisation table of no such number": with_segment(JPEG, 0xDB, b"\x04" + b"\x01" * 64),
    "a Huffman table too short": with_segment(JPEG, 0xC4, b"\x00" + bytes(15) + b"\x02" + b"\x05"),
    "a Huffman table too long": with_segment(JPEG, 0xC4, b"\x11" + b"\xff" * 16 + b"\x05" * 4080),
    "a Huffman table of no such class": with_segment(JPEG, 0xC4, b"\x21" + bytes(15) + b"\x01" + b"\x05"),
    "a DC category that 8 bits do not need": with_segment(JPEG, 0xC4, b"\x00" + bytes(15) + b"\x01" + b"\x0c"),
    "a restart interval too short": with_segment(JPEG, 0xDD, b"\x00"),
    "a frame of 12 bits": at(JPEG, frame_header(JPEG) + 4, b"\x0c"),
    "a frame of two components": at(JPEG, frame_header(JPEG) + 9, b"\x02"),
    "a frame too long": at(JPEG, frame_header(JPEG) + 3, b"\x12"),
    "two frames": JPEG[:JFIF_END] + segment(0xC0, JPEG[frame_header(JPEG) + 4 :][:15]) + JPEG[JFIF_END:],
    "no height": with_size(JPEG, 60, 0),
    "no factors": with_factors(JPEG, 0x02),
    "two components of one name": at(JPEG, frame_header(JPEG) + 13, JPEG[frame_header(JPEG) + 10 :][:1]),
    "a scan of another component": in_segment(JPEG, 0xDA, 1, b"\x09"),
    "a scan of fewer components": JPEG[: segments(JPEG)[-1][0]] + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + END,
    "a scan of fewer coefficients": in_segment(JPEG, 0xDA, 8, b"\x3e"),
    "a scan that is one of several": in_segment(JPEG, 0xDA, 9, b"\x01"),
    "a segment of no length": JPEG[:2] + b"\xff\xe7\x00\x01" + JPEG[2:],
    "a marker that is none": JPEG[:2] + b"\xff\x01" + JPEG[2:],
    "a fill byte": JPEG[:JFIF_END] + b"\xff" + JPEG[JFIF_END:],
    "garbage between segments": JPEG[:JFIF_END] + b"abc" + JPEG[JFIF_END:],
    "so many blocks that sums overflow": with_size(JPEG, 16400, 4112),
    # Markers in the data, and its end.
    "a marker behind the last row": before_end(b"\xff\x80\x00\x04"),
    "a fill byte before the end": before_end(b"\xff"),
    "a restart marker": before_end(b"\xff\xd0"),
    "a table behind the data": before_end(DHT),
    "no end": JPEG[:-2],
    "an end too late": JPEG[:-2] + b"\xff\xd8" + END,
    "half a scan": JPEG[: (scan_start(JPEG) + len(JPEG)) // 2],
    "a restart marker too few": RESTARTS[: restart(7)] + RESTARTS[restart(7) + 2 :],
    "a restart marker too many": RESTARTS[:-2] + b"\xff\xd7" + END,
    "a restart marker of another number": at(RESTARTS, restart(9) + 1, b"\xd2"),
    "a fill byte before a restart marker": RESTARTS[: restart(3)] + b"\xff" + RESTARTS[restart(3) :],
    "restart markers for another interval": in_segment(RESTARTS, 0xDD, 1, b"\x02"),
    "restart markers for no interval": without(RESTARTS, 0xDD),
    # Metadata that Pillow stumbles over.
    "JFIF too short": with_segment(JPEG, 0xE0, b"JFIF"),
    "a profile too short": with_segment(JPEG, 0xE2, b"ICC_PROFILE\0"),
    "resources that end too early": with_segment(JPEG, 0xED, b"Photoshop 3.0\0" + b"8BIM\x00\x01"),
}


def pillows(data: bytes) -> Look:
    """What two openings with Pillow say."""
    try:
        with quiet(), open_image(data):
            problem = None
    except Exception as err:  # noqa: BLE001 - whatever Pillow raises
        problem = problem_of(err, data)
    with quiet():
        return Look(problem, mark_of(data))


EVERY = {**FILES, **STILL_PLAIN, **BROKEN}


@pytest.mark.parametrize("name", EVERY)
def test_which_are_plain(name: str) -> None:
    is_plain = name not in NOT_PLAIN and name not in BROKEN
    assert is_plain_jpeg(EVERY[name]) == is_plain
    assert mark_of(EVERY[name]) == (PLAIN if is_plain else OTHER)
    assert look(EVERY[name]) == pillows(EVERY[name])


IMAGES = {"plain": JPEG, "png": FILES["PNG"], "other": FILES["progressive"], "restarts": RESTARTS}
MARKS = [PLAIN, OTHER, OTHER, PLAIN]


def test_marks_are_stored_with_every_record_set(tmp_path: Path) -> None:
    write_tree(tmp_path / "tree", {f"a/{number}.jpg": data for number, data in enumerate(IMAGES.values())})
    for options, marks in (({}, MARKS), ({"variant": "30"}, [PLAIN] * 4), ({"variant": "30-png"}, [OTHER] * 4)):
        path = ImageFolderRecord(tmp_path / "tree", **options).records_path
        assert list(RecordReader(path).marks("image")) == marks
    with RecordWriter(tmp_path / "own.records") as writer:
        for data in IMAGES.values():
            writer.write({"image": data, "target": 0})
    assert list(RecordReader(tmp_path / "own.records").marks("image")) == MARKS
    convert([(data, 0) for data in IMAGES.values()], tmp_path / "converted.records")
    assert list(RecordReader(tmp_path / "converted.records").marks("image")) == MARKS


@pytest.mark.parametrize("with_marks", [True, False])
def test_the_loader_says_what_pillow_says(tmp_path: Path, with_marks: bool) -> None:
    """Several times over, so that files without tables come behind others, whose tables are in the decompressor."""
    files = [*FILES.values(), *STILL_PLAIN.values(), *BROKEN.values()]
    counts = jpegs.check(files * 3, tmp_path, 1, with_marks=with_marks)
    assert counts["plain"] == 3 * (len(FILES.keys() - NOT_PLAIN) + len(STILL_PLAIN))
    assert counts["refused"] > len(BROKEN)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_mutants(seed: int, tmp_path: Path) -> None:
    counts = jpegs.check(list(itertools.islice(Mutants(seed), 1000)), tmp_path, seed, with_marks=seed % 2 == 0)
    assert counts["refused"] + counts["images"] == 1000
    assert min(counts["refused"], counts["plain"]) > 200


@pytest.mark.parametrize("data", [JPEG, RESTARTS, FILES["EXIF"]], ids=["usual", "restarts", "EXIF"])
def test_cut_anywhere(data: bytes) -> None:
    assert [length for length in range(len(data) + 1) if is_plain_jpeg(data[:length])] == [len(data)]


def test_what_pillow_warns_of_is_plain_unless_warnings_are_errors() -> None:
    data = with_broken_exif(JPEG)
    assert not is_plain_jpeg(data)  # pytest makes them errors
    with warnings.catch_warnings(action="ignore"):
        assert is_plain_jpeg(data)
    assert look(data) == pillows(data)


def test_an_image_that_pillow_refuses_for_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60 * 50 // 2 - 1)
    assert not is_plain_jpeg(JPEG)


@pytest.mark.slow
def test_one_look_says_what_pillow_says_of_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", jpegs.MAX_PIXELS)
    counts: Counter[str] = Counter()
    for data in itertools.islice(Mutants(3), 10_000):
        looked = look(data)
        assert looked == pillows(data), data
        counts["plain"] += looked.mark == PLAIN
        counts["refused"] += looked.problem is not None
    assert counts["plain"] > 2400
    assert counts["refused"] > 500


def test_decoding_finds_what_the_header_does_not_say() -> None:
    half = JPEG[: (scan_start(JPEG) + len(JPEG)) // 2]
    assert look(half) == (None, OTHER)
    problem, mark = look(half, decode=True)
    assert problem is not None
    assert problem.startswith("OSError: image file is truncated")
    assert mark == OTHER
