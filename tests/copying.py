"""Record sets to push and pull: small ones, with all kinds of files."""

import pickle
import signal
import traceback
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
            data = pickle.dumps(thing) + "".join(traceback.format_exception(thing)).encode()
        elif isinstance(thing, Path):
            data = b"".join(path.read_bytes() for path in thing.rglob("*") if path.is_file())
        else:
            data = str(thing).encode()
        assert SECRET_KEY.encode() not in data
        assert SESSION_TOKEN.encode() not in data
