"""Print how many modules of recordzoo run in four everyday walks, each in a fresh process, beside their limits.

    python -m tools.walks [--names]

A module counts if one of its functions is executed, in any thread, during the walk. Code that runs while a module is
imported does not count, nor do the steps before the walk (making files, opening the set).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "recordzoo"


class Walk(NamedTuple):
    """A walk: what it does, the most modules, and the function that prepares it and returns it."""

    what: str
    limit: int
    begin: "Callable[[Path], Callable[[], object]]"


# Any: a class that no checker knows.
def _birds(root: Path, url: str = "") -> Any:
    """Return `CUB200Record` for the fake archive, which is written to `root`."""
    import recordzoo
    from tests.fakes import cub200

    archive = cub200.build().write_archive(root)
    files = cub200.remote_files(root, lambda name: f"{url}/{name}" if url else "")
    return type("CUB200Record", (recordzoo.CUB200Record,), {"raw_files": files}), archive


def download(root: Path) -> Callable[[], object]:
    """Download, convert and open a set."""
    from tests.fakes.server import FileServer

    (root / "host").mkdir()
    _, archive = _birds(root / "host")
    server = FileServer({archive.name: archive.read_bytes()}).__enter__()  # ends with the process
    kind, _ = _birds(root / "host", server.url)
    return lambda: kind(root / "data", download=True)


def reopen(root: Path) -> Callable[[], object]:
    """Open a set that is ready."""
    kind, _ = _birds(root)
    kind(root)
    return lambda: kind(root)


def first_batch(root: Path) -> Callable[[], object]:
    """Take one batch of a set that is open."""
    from torchvision import transforms

    import recordzoo

    kind, _ = _birds(root)
    kind(root)
    dataset = kind(root, transform=transforms.Compose([transforms.Resize((16, 16)), transforms.ToTensor()]))
    return lambda: next(iter(recordzoo.RecordLoader(dataset, batch_size=4, num_workers=0)))


def convert(root: Path) -> Callable[[], object]:
    """Make a record set of a TFRecord file by the command line."""
    from recordzoo.cli.app import app, run
    from tests.foreign import written

    path = Path(shutil.copy(written("tfrecord")[0] / "validation-00000-of-00001", root / "x.tfrecord"))

    def prepare() -> None:
        if code := run(app, ["prepare", str(path)]):
            sys.exit(f"recordzoo prepare ended with {code}")

    return prepare


WALKS = {
    "download": Walk("CUB200Record(root, download=True)", 30, download),
    "reopen": Walk("CUB200Record(root), ready", 15, reopen),
    "batch": Walk("first batch of RecordLoader", 16, first_batch),
    "tfrecord": Walk("recordzoo prepare x.tfrecord", 35, convert),
}


def executed(action: Callable[[], object]) -> set[str]:
    """Return the modules, as paths below the package, of which a function runs during the action."""
    found: set[str] = set()
    inside = f"{PACKAGE}{os.sep}"

    # Any: `arg` is whatever the event carries.
    def note(frame: FrameType, event: str, arg: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(inside) and name not in found and not _imports(frame):
            found.add(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {Path(name).relative_to(PACKAGE).as_posix() for name in found}


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame runs because a module of the package is being imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            return True
        frame = frame.f_back
    return False


def measure(name: str) -> list[str]:
    """Walk in a fresh process; return the modules."""
    command = [sys.executable, "-m", "tools.walks", "--walk", name]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"the walk {name!r} failed:\n{result.stderr}")
    return result.stdout.split()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.walks", description=__doc__.partition("\n")[0])
    parser.add_argument("--names", action="store_true", help="print the modules, too")
    parser.add_argument("--walk", choices=WALKS, help="do this walk here, and print its modules only")
    options = parser.parse_args(arguments)
    if options.walk:
        with tempfile.TemporaryDirectory() as folder:
            found = executed(WALKS[options.walk].begin(Path(folder)))
        print(*sorted(found), sep="\n")
        return 0
    print(f"{'walk':<40} {'limit':>7} {'now':>7}")
    for name, walk in WALKS.items():
        modules = measure(name)
        print(f"{walk.what:<40} {walk.limit:>7} {len(modules):>7}{'  over' if len(modules) > walk.limit else ''}")
        if options.names:
            print(*(f"    {module}" for module in modules), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
