"""Convert one unit in an executor's worker, perhaps on another host.

The data shared by all units is a file in the build directory; each process reads it once. So a unit's call is small,
and a recipe's set-up reaches processes that have no initializer.
"""

import functools
import hashlib
import mmap
import os
import pickle
import platform
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import lmdb
import PIL

from recordzoo.base import durable
from recordzoo.errors import PrepareError, SourceError
from recordzoo.preparing.convert import ShardFacts, Task, convert_unit

_KEPT = 4
"""Preparations cached by a worker, which may serve several at once."""

_WATCH_S = 5.0

_loading = threading.Lock()


def versions() -> dict[str, str]:
    """Return the versions that affect a shard's bytes or the format of a unit's call."""
    return {
        "recordzoo": str(vars(sys.modules["recordzoo"])["__version__"]),  # importing it here would be circular
        "lmdb": str(lmdb.__version__),
        "Pillow": PIL.__version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "bytes of a page of memory": str(mmap.PAGESIZE),
    }


def share(task: Task) -> dict[str, str]:
    """Write the data shared by all units into the build directory; return the reference for each call."""
    data = cloudpickle.dumps((_without_unit(task), task.recipe.worker_setup()))
    digest = hashlib.sha256(data).hexdigest()
    path = task.folder / f"task.{digest[:16]}.pickle"
    durable.write_file(path, data)
    durable.sync_directory(task.folder)
    return {"path": os.fspath(path), "digest": digest}


def _without_unit(task: Task) -> Task:
    return replace(task, number=-1, unit=None, done=())  # type: ignore[arg-type]  # each call brings its own


def call_of(task: Task, shared: Mapping[str, str]) -> dict[str, Any]:
    """Return a unit's call in built-in types: a worker with another version can read it and report that."""
    unit: bytes = cloudpickle.dumps((task.number, task.unit, task.done))
    return {"versions": versions(), "host": socket.gethostname(), "shared": dict(shared), "unit": unit}


def convert_assigned(call: Mapping[str, Any]) -> list[ShardFacts]:
    """Convert a unit, in a worker."""
    _check_versions(call["versions"])
    here = socket.gethostname()
    try:
        with _loading:
            template = _loaded(Path(call["shared"]["path"]), call["shared"]["digest"])
        number, unit, done = pickle.loads(call["unit"])  # noqa: S301 - from the executor, whose calls are code
        return convert_unit(
            replace(template, number=number, unit=unit, done=done), _Watch(call["shared"]["path"]).advance
        )
    except (SourceError, PrepareError) as err:
        if here == call["host"]:
            raise
        raise type(err)(f"Host {here}: {err}", **err.details) from err


def _check_versions(wanted: Mapping[str, str]) -> None:
    mine = versions()
    other = [f"{name} {mine.get(name)} instead of {wanted[name]}" for name in wanted if mine.get(name) != wanted[name]]
    if other:
        raise PrepareError(
            f"The worker on {socket.gethostname()} has {', '.join(other)}. The records could have other bytes: install "
            "the same versions on all workers."
        )


class _Watch:
    """Ends a conversion whose preparation has ended, which removes the file that all units share.

    An executor cannot stop a running call.
    """

    def __init__(self, shared: str) -> None:
        self._shared = Path(shared)
        self._next = time.monotonic() + _WATCH_S

    def advance(self, num_bytes: int, num_images: int) -> None:
        """Check the file from time to time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _WATCH_S
        try:
            self._shared.stat()
        except FileNotFoundError as err:
            raise PrepareError(f"{self._shared} is gone: the preparation has ended.") from err


@functools.lru_cache(_KEPT)
def _loaded(path: Path, digest: str) -> Task:
    """Read the data shared by all units of a preparation, and call its set-up, once per process."""
    try:
        data = path.read_bytes()
    except OSError as err:
        raise PrepareError(
            f"The worker on {socket.gethostname()} cannot read {path} ({err.strerror}). All workers must see the raw "
            "data and the records under the same paths as the process that prepares: put both on a shared file system."
        ) from err
    if hashlib.sha256(data).hexdigest() != digest:
        raise PrepareError(f"{path} was changed since it was written. Run the same command again.")
    try:
        task, setup = pickle.loads(data)  # noqa: S301 - its hash came with the call
        if setup is not None:
            setup()
    except Exception as err:
        raise PrepareError(
            f"The worker on {socket.gethostname()} cannot load what it shall convert ({type(err).__name__}: {err}). "
            "Install the same packages on all workers, and let them find the same modules (PYTHONPATH)."
        ) from err
    template: Task = task
    return template
