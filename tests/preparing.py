"""Preparations of the simple dataset in processes of their own: what is run there, and how the tests start it.

    python -m tests.preparing ROOT '{"form": "stream", "workers": 2}'

prints the published set's digest, or, with exit code 1, the error as JSON.
"""

import contextlib
import hashlib
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from recordzoo.base.progress import LogProgress
from tests.forking import REPOSITORY as REPOSITORY
from tests.forking import Forked, Started, can_fork, serve, start

SHARD_BYTES = 40_000
DEADLINE_S = 30.0


def main(root: Path, options: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    patch(locks=options.pop("locks", True), stop_at=options.pop("stop_at", ""))
    from recordzoo.errors import RecordZooError
    from recordzoo.preparing.preparation import ensure
    from recordzoo.preparing.workers import dask_executor
    from recordzoo.records.reader import RecordReader
    from tests.fakes.simple import SimpleRecipe, values

    if "user" in options:
        _become(*options.pop("user"))
    recipe = SimpleRecipe(options.pop("form"), remote_files(options.pop("raw_files", [])))
    check = options.pop("check", False)
    dask = options.pop("dask", None)
    try:
        with contextlib.nullcontext() if dask is None else dask_executor(dask) as executor:
            reader = RecordReader(ensure(recipe, root, **{"shard_bytes": SHARD_BYTES, "executor": executor, **options}))
    except RecordZooError as err:
        details = {name: value for name, value in err.details.items() if isinstance(value, str | int)}
        print(json.dumps({"type": type(err).__name__, "text": str(err), **details}), flush=True)
        sys.exit(1)
    if check:  # every byte, as this process sees it
        images = values()
        assert all(reader.read("image", i) == images[name] for i, name in enumerate(reader.names))
    print(reader.digest, flush=True)


# Any: options of `recordzoo.prepare`.
def prepared(data: str | Path, output: str | Path | None = None, **options: Any) -> Path:
    """Prepare what becomes one record set."""
    import recordzoo

    (made,) = recordzoo.prepare(data, output=output, **options)
    return made


def remote_files(facts: list[dict[str, Any]]) -> tuple[Any, ...]:
    from recordzoo.net.url import RemoteFile

    return tuple(RemoteFile(**{**each, "urls": tuple(each["urls"])}) for each in facts)


def _become(uid: int, gid: int, umask: int) -> None:
    """Become another user, who may not even be allowed to read this Python: all that is needed is loaded before."""
    kill_at = os.environ.pop("RECORDZOO_KILL_AT", "")
    with tempfile.TemporaryDirectory() as name:
        from recordzoo.net import download as transfer  # noqa: F401
        from recordzoo.preparing.preparation import ensure
        from tests.fakes import simple
        from tests.users import become

        simple.write(Path(name), "stream")
        logging.disable()
        ensure(simple.SimpleRecipe("stream"), Path(name), workers=1)
        logging.disable(logging.NOTSET)
    os.environ["RECORDZOO_KILL_AT"] = kill_at
    become(uid, gid, umask)


def patch(*, locks: bool, stop_at: str) -> None:
    """Let the file system have no locks; let this process stop itself at a step."""
    if not locks:
        import errno

        import filelock

        def lock(fd: int, **_: object) -> bool:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        filelock.lock_descriptor = lock  # type: ignore[assignment]
    if stop_at:
        wanted, _, count = stop_at.partition(":")
        left = [int(count or 1)]

        def stop(name: str) -> None:
            left[0] -= name == wanted
            if name == wanted and left[0] == 0:
                os.kill(os.getpid(), signal.SIGSTOP)

        at_each_step(stop)


def at_each_step(function: Callable[[str], None]) -> None:
    """Let this process call a function with the name of each step that it comes to."""
    from recordzoo.base import process as crash_points

    original = crash_points.crash_point

    def step(name: str) -> None:
        function(name)
        original(name)

    for module in list(sys.modules.values()):
        if vars(module).get("crash_point") is original:
            module.crash_point = step  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code, what it printed and what it logged."""

    code: int
    out: str
    log: str

    @property
    def digest(self) -> str:
        assert self.code == 0, f"exit code {self.code}: {self.out}{self.log}"
        return self.out.strip()

    @property
    def error(self) -> dict[str, Any]:
        assert self.code == 1, f"exit code {self.code}: {self.out}{self.log}"
        return json.loads(self.out)


def served(archive: Path, url: str) -> dict[str, Any]:
    """The options of a `Process` that downloads an archive and converts it by itself."""
    from tests.fakes.simple import remote

    known = remote(archive, url)
    facts = {"name": known.name, "urls": known.urls, "size_bytes": known.size_bytes, "md5": known.md5}
    return {"raw_files": [facts], "download": True, "workers": 1}


def assert_made(root: Path, form: str, files: Mapping[str, str], ended: Sequence[Ended] = ()) -> None:
    """There is one set, the same for all processes, with these files, and nothing else is left."""
    assert len({each.digest for each in ended}) <= 1
    assert contents(root / "simple.records") == files
    assert beside(root, form) == ["simple.records"]


# Any: options of `again`.
def assert_made_again(root: Path, form: str, files: Mapping[str, str], **options: Any) -> None:
    """The same command makes these files, and nothing else is left."""
    again(root, form, **options)
    assert_made(root, form, files)


class Notes(LogProgress):
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Program:
    """A module's program in a process of its own, in a process group of its own; ended at the latest with the block.

    Args:
        module: The module, with a ``__main__`` as `Forked` needs it.
        arguments: The program's arguments.
        env: Environment variables besides those of this process.
        prefix: A command that runs it ("strace ...").
        may_fork: Whether it may be forked from a process that has imported what it needs.
    """

    def __init__(
        self,
        module: str,
        arguments: list[str],
        env: dict[str, str] | None = None,
        prefix: tuple[str, ...] = (),
        *,
        may_fork: bool = True,
    ) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RECORDZOO_")}
        variables = {**clean, "no_proxy": "127.0.0.1", **(env or {})}
        self._popen: Forked | Started
        if may_fork and not prefix and can_fork():
            self._popen = Forked((module,), arguments, variables)
        else:
            self._popen = start([*prefix, sys.executable, "-m", module, *arguments], variables)
        self.pid = self._popen.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with self._popen:
            pass

    @property
    def runs(self) -> bool:
        return self._popen.poll() is None

    def end(self, timeout_s: float = DEADLINE_S) -> Ended:
        """Wait for its end."""
        out, log = self._popen.communicate(timeout=timeout_s)
        return Ended(self._popen.returncode, out, log)

    def wait_until_stopped(self) -> None:
        """Wait until it has come to its `stop_at`."""
        assert self._popen.wait_until_stopped(), self.end()

    def signal(self, *numbers: int, group: bool = False) -> None:
        """Send signals to it, or to its whole process group."""
        for number in numbers:
            (os.killpg if group else os.kill)(self.pid, number)

    def saw(self, text: str) -> bool:
        """Read its log up to the line that holds a text; whether there was one before the end."""
        return any(text in line for line in self._popen.lines())


class Process(Program):
    """A preparation in a process of its own.

    Args:
        root: Where the raw data is.
        form: Its form.
        env: Environment variables besides those of this process.
        prefix: A command that runs it ("strace ...").
        **options: Of `ensure`; also `locks`, `stop_at`, `check`, `raw_files`, `user` (its number, its group's, umask).
    """

    def __init__(
        self, root: Path, form: str, env: dict[str, str] | None = None, prefix: tuple[str, ...] = (), **options: Any
    ) -> None:
        arguments = [str(root), json.dumps({"form": form, **options})]
        super().__init__("tests.preparing", arguments, env, prefix, may_fork="user" not in options)


def run(root: Path, form: str, **arguments: Any) -> Ended:
    """Prepare in a process of its own, to its end; arguments as of `Process`."""
    with Process(root, form, **arguments) as process:
        return process.end()


def wait_for(condition: Callable[[], object], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Look until something is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in {timeout_s:.0f} s"
        time.sleep(0.01)


def group_members(group: int) -> list[int]:
    """Process numbers of a process group or session, without those that are only waited for."""
    members = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX" and group in (int(fields[2]), int(fields[3])):
                    members.append(int(path.name))
    return members


def contents(folder: Path) -> dict[str, str]:
    """All files under a folder, by relative name, as hashes of their bytes; without that of the raw files' times."""
    from recordzoo.records.writer import MADE_FROM_FILE

    files = [path for path in sorted(folder.rglob("*")) if not path.is_dir() and path.name != MADE_FROM_FILE]
    return {str(path.relative_to(folder)): _hash(path) for path in files}


def _hash(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def beside(root: Path, form: str) -> list[str]:
    """Names under a root besides the raw data, and the mark that it was downloaded."""
    from tests.fakes.simple import FORMS

    raw = (FORMS[form], f".{FORMS[form]}.recordzoo")
    return sorted(path.name for path in root.iterdir() if path.name not in raw)


def builds(root: Path) -> Iterator[Path]:
    """The build directories under a root."""
    return (path for path in root.glob("*.build*") if path.is_dir())


def _forked_arguments() -> list[str]:
    """Import what `main` does, and wait to be forked."""
    from recordzoo.preparing import preparation  # noqa: F401
    from tests.fakes import simple  # noqa: F401

    return serve()


# Any: the options of `ensure`.
def again(root: Path, form: str, **options: Any) -> Path:
    """Prepare a simple set once more, here, to its end."""
    from recordzoo.preparing.preparation import ensure
    from tests.fakes.simple import SimpleRecipe

    return ensure(SimpleRecipe(form), root, **{"shard_bytes": SHARD_BYTES, "workers": 1, **options})


if __name__ == "__main__":
    given = _forked_arguments() if sys.argv[1:] == ["--serve"] else sys.argv[1:]
    main(Path(given[0]), json.loads(given[1]))
