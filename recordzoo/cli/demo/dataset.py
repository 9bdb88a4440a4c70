"""The demo's dataset: `CUB200Record` with another address. Run as a module, it is the process that gets killed."""

import sys
from pathlib import Path
from typing import Any

from recordzoo.datasets.cub200.dataset import CUB200Record
from recordzoo.sources.download import RemoteFile


class DemoBirds(CUB200Record):
    """CUB-200-2011 from wherever `raw_files` says; all else is as in production."""


def open_birds(root: Path, remote: RemoteFile, **options: Any) -> DemoBirds:  # Any: CUB200Record's own options
    """Open the dataset below `root`; download and convert what is not there."""
    DemoBirds.raw_files = (remote,)
    return DemoBirds(root, download=True, **options)


if __name__ == "__main__":
    root, name, url, size, sha256 = sys.argv[1:]
    open_birds(Path(root), RemoteFile(name, (url,), size_bytes=int(size), sha256=sha256))
