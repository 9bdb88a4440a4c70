"""What the tests of every foreign format do alike: samples to write, and what an import of them must be."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from recordzoo.errors import RecordZooError
from recordzoo.records.reader import RecordReader
from tests.fakes.pictures import encoded
from tests.preparing import prepared
from tests.running import python

WRITTEN = Path(__file__).parent / "written"
"""What large packages wrote, a folder for each format, with `expected.json`: see `tests/write_written.py`."""

UNIT_BYTES = 4096
"""The size of shards with which even small files are cut into several units."""


@dataclass(frozen=True)
class Expected:
    """The samples of a foreign dataset, in its order.

    Attributes:
        images: The BLAKE2b digest of each encoded image.
        targets: The labels; None: there are none.
        classes: The names of the classes, if they are stored.
        splits: The positions of each split.
        fields: Other fields: the value of each sample.
    """

    images: Sequence[str]
    targets: Sequence[int] | None
    classes: Sequence[str] | None = None
    splits: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fields: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def pairs(count: int, seed: int = 0) -> list[tuple[bytes, int]]:
    """Make encoded pictures, most JPEG, some PNG, each another; with labels."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        image = Image.fromarray(rng.integers(0, 255, (8 + number % 5, 12, 3), np.uint8))
        made.append((encoded(image, "PNG" if number % 4 == 3 else "JPEG"), int(rng.integers(5))))
    return made


def expected_of(samples: Sequence[tuple[bytes, int]], **more: Any) -> Expected:
    """Return what an import of these samples must have."""
    return Expected([digest(image) for image, _ in samples], [label for _, label in samples], **more)


def written(name: str) -> tuple[Path, Expected]:
    """Return what a large package wrote, and what an import of it must have."""
    folder = WRITTEN / name
    return folder / "data", Expected(**json.loads((folder / "expected.json").read_text(encoding="utf-8")))


# Any: the options of `prepare`.
def imported(path: Path | str, output: Path | None = None, **options: Any) -> RecordReader:
    """Import with one process. Default output: `my.records` beside the path."""
    return RecordReader(prepared(path, output or Path(path).with_name("my.records"), **{"workers": 1, **options}))


def check(path: Path | str, expected: Expected, output: Path, **options: Any) -> RecordReader:
    """Import with one process and with two: the same bytes, and these are the samples."""
    one = RecordReader(prepared(path, output, workers=1, shard_bytes=UNIT_BYTES, **options))
    two = RecordReader(prepared(path, output.with_name("two.records"), shard_bytes=UNIT_BYTES, **options))
    assert one.digest == two.digest
    assert [digest(one.read("image", position)) for position in range(len(one))] == list(expected.images)
    if expected.targets is None:
        assert "target" not in one.columns
    else:
        assert one.array("target").tolist() == list(expected.targets)
    assert one.manifest.classes == (None if expected.classes is None else tuple(expected.classes))
    assert set(one.manifest.splits) == set(expected.splits)
    for split, positions in expected.splits.items():
        assert one.split(split).tolist() == list(positions)
    for name, values in expected.fields.items():
        assert [_value(one, name, position) for position in range(len(one))] == list(values)
    assert prepared(path, output, **options) == output
    return one


def _value(reader: RecordReader, name: str, position: int) -> Any:
    try:
        value = reader.value(name, position)
    except (KeyError, IndexError):
        raise
    except LookupError:  # the record has no value
        return None
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def check_resumed(path: Path | str, whole: RecordReader, output: Path, *words: str) -> None:
    """Kill the command after two shards, run it again: the same bytes as those of an import that was not killed."""
    killed = python("-c", _COMMAND, path, output, UNIT_BYTES, *words, RECORDZOO_KILL_AT="shard.done:2")
    assert killed.returncode < 0 or killed.returncode == 1, killed.stderr
    assert not output.exists()
    build = output.with_name(f"{output.name}.build")
    kept = {file.stat().st_ino for file in build.glob("*.lmdb")}
    assert kept
    prepared(path, output, workers=1, shard_bytes=UNIT_BYTES)
    assert RecordReader(output).digest == whole.digest
    assert kept <= {file.stat().st_ino for file in output.glob("*.lmdb")}


_COMMAND = """
import sys
from tests.preparing import prepared
if __name__ == "__main__":
    prepared(sys.argv[1], sys.argv[2], workers=1, shard_bytes=int(sys.argv[3]))
"""


def check_refused(path: Path | str, output: Path, *texts: str, **options: Any) -> RecordZooError:
    """Import what is damaged: an error of ours with these texts, and no record set."""
    with pytest.raises(RecordZooError) as caught:
        prepared(path, output, workers=1, **options)
    assert not output.exists()
    for text in texts:
        assert text in str(caught.value), str(caught.value)
    return caught.value
