"""Everything that publishes, each as a process of its own: what the contract of `publish/` is tried with.

    python -m tests.publishing '{"user": "copy", "data": "/data/a", "out": "/x/out.records"}'

prints "made", or with exit code 1 the error as JSON, or with exit code 2 the name of a user's own exception.
"""

import io
import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recordzoo.base.progress import SilentProgress
from tests.forking import serve
from tests.preparing import SHARD_BYTES, Program, at_each_step, patch

STEPS_LOG = "STEPS_LOG"
"""Environment variable: the file to which each step's name is appended."""


def write_data(folder: Path, seed: int) -> Path:
    """Write what all users need: raw data, two record sets, a tar of samples."""
    from recordzoo.preparing.preparation import ensure
    from tests.fakes import simple
    from tests.fakes.simple import SimpleRecipe

    values = simple.values(num_classes=2, per_class=8, seed=seed)
    for name in ("one", "two"):
        simple.write(folder / name, "tree", values)
        ensure(SimpleRecipe("tree"), folder / name, shard_bytes=SHARD_BYTES, workers=1)
    with tarfile.open(folder / "samples.tar", "w") as archive:
        for number, (name, data) in enumerate(sorted(values.items())):
            if name.endswith(".jpg"):
                for ending, part in (("jpg", data), ("cls", b"%d" % (number % 2))):
                    info = tarfile.TarInfo(f"{number:06d}.{ending}")
                    info.size = len(part)
                    archive.addfile(info, io.BytesIO(part))
    return folder


# Any, here and below: options of each function.
def _prepare(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    from recordzoo.preparing.preparation import ensure
    from tests.fakes.simple import SimpleRecipe

    ensure(
        SimpleRecipe("tree"),
        data / "one",
        records_dir=out,
        refresh=refresh,
        workers=1,
        shard_bytes=SHARD_BYTES,
        prepare=True,
        **options,
    )


def _writer(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    from recordzoo import RecordReader, RecordWriter

    progress = options.get("progress")
    with RecordWriter(out, refresh=refresh, shard_bytes=SHARD_BYTES) as writer:
        for record in RecordReader(data / "one" / "simple.records"):
            writer.write({"name": record["name"], "image": record["image"], "target": record["target"]})
            if progress is not None:
                progress.advance(1, 1)


def _convert(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    import recordzoo

    records = recordzoo.RecordReader(data / "one" / "simple.records")
    samples = [(record["image"], int(record["target"])) for record in records]
    recordzoo.convert(samples, out, refresh=refresh, workers=1, shard_bytes=SHARD_BYTES, **options)


def _imported(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    from tests.preparing import prepared

    prepared(data / "samples.tar", out, refresh=refresh, workers=1, shard_bytes=SHARD_BYTES, **options)


def _merge(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    import recordzoo

    recordzoo.merge([data / name / "simple.records" for name in ("one", "two")], out, **options)


def _subset(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    import recordzoo

    chosen = {"indices": range(3, 14), "workers": 1, "shard_bytes": SHARD_BYTES}
    recordzoo.subset(data / "one" / "simple.records", output=out, **chosen, **options)


def _copy(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    import recordzoo

    recordzoo.copy(data / "one" / "simple.records", out, replace=refresh, workers=1, **options)


def _pull(data: Path, out: Path, refresh: bool, **options: Any) -> None:
    import recordzoo

    recordzoo.pull(f"file://{data / 'one' / 'simple.records'}", out, replace=refresh, workers=1, **options)


USERS: dict[str, Callable[..., None]] = {
    "prepare": _prepare,
    "writer": _writer,
    "convert": _convert,
    "import": _imported,
    "merge": _merge,
    "subset": _subset,
    "copy": _copy,
    "pull": _pull,
}
REPLACING = [user for user in USERS if user not in ("merge", "subset")]
"""The users that can replace their output; the others ignore `refresh`."""


class Failing(SilentProgress):
    """A progress of the user's that raises when a number of things were reported."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self._left = left

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        self._left -= 1
        if self._left < 0:
            raise FileNotFoundError("the user's own file")


def main(given: dict[str, Any]) -> None:
    patch(locks=True, stop_at=given.get("stop_at", ""))
    from recordzoo.errors import RecordZooError

    if not given.get("exchange", True):
        from recordzoo.base import files

        files.exchange = lambda one, other: False
    if STEPS_LOG in os.environ:
        at_each_step(_log)
    options = {"progress": Failing(given["fail_after"])} if "fail_after" in given else {}
    try:
        USERS[given["user"]](Path(given["data"]), Path(given["out"]), given.get("refresh", False), **options)
    except RecordZooError as err:
        print(json.dumps({"type": type(err).__name__, "text": str(err)}), flush=True)
        sys.exit(1)
    except Exception as err:  # noqa: BLE001 - whatever the user raised
        print(json.dumps({"type": type(err).__name__, "text": str(err)}), flush=True)
        sys.exit(2)
    print("made", flush=True)


def _log(step: str) -> None:
    """Write the name of a step into the file that the environment names."""
    with open(os.environ[STEPS_LOG], "a") as file:
        file.write(f"{step}\n")


def started(env: dict[str, str] | None = None, prefix: tuple[str, ...] = (), **given: Any) -> Program:
    """A process of `main`; paths in `given` become texts."""
    texts = {name: str(each) if isinstance(each, Path) else each for name, each in given.items()}
    return Program("tests.publishing", [json.dumps(texts)], {"RECORDZOO_STATE": "off", **(env or {})}, prefix)


def _forked_arguments() -> list[str]:
    """Import what `main` does, and wait to be forked."""
    import recordzoo  # noqa: F401
    from recordzoo.own import sample, writer  # noqa: F401
    from recordzoo.sets import copy, merge  # noqa: F401
    from tests.fakes import simple  # noqa: F401

    return serve()


if __name__ == "__main__":
    (only,) = _forked_arguments() if sys.argv[1:] == ["--serve"] else sys.argv[1:]
    main(json.loads(only))
