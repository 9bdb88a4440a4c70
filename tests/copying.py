"""Record sets to push and pull: small ones, with all kinds of files."""

import io
import logging
import pickle
import signal
from pathlib import Path

import numpy as np

from recordzoo.records.arrays import marks_name, pack_marks
from recordzoo.records.manifest import MANIFEST_NAME as MANIFEST_NAME
from recordzoo.records.reader import RecordReader
from recordzoo.records.writer import BESIDE
from tests.fakes.records import some_values, write_records
from tests.fakes.s3 import SECRET_KEY, SESSION_TOKEN
from tests.running import python


def write_set(path: Path, seed: int = 0, *, count: int = 12) -> Path:
    """Write a record set with `count` // 3 shards, and marks, beside a file that tells of this machine."""
    write_records(path, some_values(count, seed=seed), per_shard=3)
    index = RecordReader(path).manifest.arrays["image.index"]
    (path / marks_name("image")).write_bytes(pack_marks(np.ones(count, np.uint8), index))
    (path / "tree.json").write_text('{"root": "/home/somebody/photos", "directories": {}}')
    return path


def copied_files(path: Path) -> dict[str, bytes]:
    """The files of a set that are copied, by name."""
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name not in BESIDE}


def shard(number: int) -> str:
    return f"shard-{number:05d}.lmdb"


def killed(step: str, *arguments: object, cwd: Path) -> None:
    """Run the command line in a process of its own that kills itself at a step."""
    done = python("-m", "recordzoo", *arguments, cwd=cwd, RECORDZOO_KILL_AT=step)
    assert done.returncode == -signal.SIGKILL, done
    assert_no_secret(done.stdout, done.stderr)


def assert_no_secret(*things: object) -> None:
    """No key of the tests' S3 server is in texts, in errors with all that they carry, or in files of a folder."""
    for thing in things:
        if isinstance(thing, BaseException):
            seen: BaseException | None = thing
            while seen is not None:
                text = repr(seen) + str(seen) + "".join(getattr(seen, "__notes__", ()))
                assert SECRET_KEY not in text
                assert SESSION_TOKEN not in text
                seen = seen.__cause__ or seen.__context__
            data = pickle.dumps(thing)
        elif isinstance(thing, Path):
            data = b"".join(path.read_bytes() for path in thing.rglob("*") if path.is_file())
        else:
            data = str(thing).encode()
        assert SECRET_KEY.encode() not in data
        assert SESSION_TOKEN.encode() not in data


class Log:
    """What recordzoo logs at the level DEBUG, while the block lasts."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        self._handler = logging.StreamHandler(self._text)
        self._logger = logging.getLogger("recordzoo")

    def __enter__(self) -> "Log":
        self._level = self._logger.level
        self._logger.setLevel(logging.DEBUG)
        self._logger.addHandler(self._handler)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level)

    @property
    def text(self) -> str:
        return self._text.getvalue()
