"""The section of a comparison of formats."""

import datetime
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from benchmarks.formats.results import Comparing
from benchmarks.formats.tables import notes, table
from recordzoo import __version__

SECTION = "formats"
_PACKAGES = ("lmdb", "tfrecord", "webdataset", "mosaicml-streaming", "datasets", "h5py")


def render(found: Comparing, command: str) -> dict[str, str]:
    """Return the section, by its name.

    Args:
        command: The command that measured.
    """
    about = f"{' '.join(notes(found))} `{command}`; {_machine(found)}; {_versions()}"
    return {SECTION: f"{table(found)}\n\n{about}"}


def _machine(found: Comparing) -> str:
    return (
        f"{platform.machine()} with {found.cores} cores, "
        f"Python {platform.python_version()}, {datetime.date.today().isoformat()}"
    )


def _versions(packages: Sequence[str] = _PACKAGES) -> str:
    found = [f"recordzoo {__version__}"]
    for name in packages:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
