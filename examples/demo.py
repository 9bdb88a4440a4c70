"""Show the whole way in about a minute, offline, with generated pictures in CUB-200-2011's layout.

    python examples/demo.py --output demo-output

A download that is killed and resumed, the conversion, every sample beside torchvision's, batches, a contact sheet.
"""

import argparse
import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import birds
from birds import TOP, DemoServer, open_birds, write_archive
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

from recordzoo import RecordLoader
from recordzoo.net.url import RemoteFile

_MARKER = ".recordzoo-demo"
_KILL_TIMEOUT_S = 120.0


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="where the demo's files and its contact sheet go (default: demo-output)",
    )
    folder = parser.parse_args().output
    began = time.perf_counter()
    _empty(folder)
    with _told("1. An archive in the layout of CUB-200-2011, with generated pictures"):
        remote = write_archive(folder / "host")
        _line(f"   {remote.name}, {_megabytes(remote.size_bytes or 0)}, on a server of the demo's own")
    with DemoServer(folder / "host" / remote.name) as server:
        remote = dataclasses.replace(remote, urls=(server.url,))
        with _told("2. CUB200Record(root, download=True) in a process that is killed on the way"):
            there = _download_and_kill(folder / "data", remote, server)
        with _told("3. The same again: the download resumes, and the images are converted into a record set"):
            _resume(folder / "data", remote, server, there)
    with _told("4. Every sample against torchvision's ImageFolder over the extracted archive"):
        _compare(folder, remote)
    with _told("5. RecordLoader beside DataLoader: batches of random crops of 224 x 224"):
        _load(folder, remote)
    with _told("6. A contact sheet, by `recordzoo show`"):
        _draw(folder)
    _line(f"All done in {time.perf_counter() - began:.0f} s. Look around:")
    for words in (["info"], ["show"], ["verify", "--full"]):
        _line(f"  {shlex.join([sys.executable, '-m', 'recordzoo', *words, str(folder / 'data' / 'cub200.records')])}")


def _download_and_kill(root: Path, remote: RemoteFile, server: DemoServer) -> int:
    """Let another process download; kill it when the server has stopped sending and the process has written."""
    arguments = [str(root), remote.name, *remote.urls, str(remote.size_bytes), str(remote.sha256)]
    with subprocess.Popen([sys.executable, birds.__file__, *arguments]) as process:
        try:
            end = time.monotonic() + _KILL_TIMEOUT_S
            while _written(root, remote) < server.held_at * 9 // 10:
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit("The demo's download ended before it could be interrupted.")
                time.sleep(0.05)
        finally:
            process.kill()
    there = _written(root, remote)
    _line(f"   killed with {_megabytes(there)} of {_megabytes(server.size_bytes)} on disk")
    return there


def _written(root: Path, remote: RemoteFile) -> int:
    parts = [path for path in root.glob(f"{remote.name}.part*") if path.suffix != ".json"]
    return max((path.stat().st_size for path in parts), default=0)


def _resume(root: Path, remote: RemoteFile, server: DemoServer, there: int) -> None:
    dataset = open_birds(root, remote)
    rest = server.size_bytes - there
    if server.log[1:] != [(there, rest)]:
        sys.exit(f"The demo's download did not resume at {there:,}: the server's log is {server.log}.")
    _line(f"   asked for bytes from {there:,}; the server sent {rest:,}, the rest and no more")
    began = time.perf_counter()
    open_birds(root, remote)
    _line(f"   {len(dataset)} training samples; opened again in {1000 * (time.perf_counter() - began):.1f} ms")


def _compare(folder: Path, remote: RemoteFile) -> None:
    with tarfile.open(folder / "host" / remote.name) as archive:
        # Not `filter="data"`: Python 3.11.2, which Debian 12 has, does not know that argument.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder / "extracted")
    theirs = ImageFolder(folder / "extracted" / TOP / "images")
    ours = open_birds(folder / "data", remote, split="all")
    if len(ours) != len(theirs) or ours.classes != theirs.classes:
        sys.exit("The record set has other samples than ImageFolder.")
    for position, ((image, label), (their_image, their_label)) in enumerate(zip(ours, theirs, strict=True)):
        if label != their_label or image.tobytes() != their_image.tobytes():
            sys.exit(f"Sample {position} differs: {theirs.samples[position][0]}.")
    _line(f"   {len(ours):,} of {len(theirs):,} samples are the same: order, every pixel, every label")


def _load(folder: Path, remote: RemoteFile) -> None:
    transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.PILToTensor()])
    theirs = ImageFolder(folder / "extracted" / TOP / "images", transform)
    ours = RecordLoader(open_birds(folder / "data", remote, split="all", transform=transform), 50, shuffle=True)
    count = ours.num_workers
    other: DataLoader[Any] = DataLoader(theirs, 50, shuffle=True, num_workers=count, persistent_workers=True)
    _line(f"   ImageFolder with DataLoader: {_images_per_s(other):,.0f} images/s in {count} worker processes")
    _line("   RecordLoader compiles its code when a machine uses it first: the demo waits for that, up to a minute")
    os.environ["RECORDZOO_COMPILE"] = "wait"
    _line(f"   CUB200Record with RecordLoader: {_images_per_s(ours):,.0f} images/s in {count} threads")
    _line(f"   {next(line.strip() for line in ours.explain().splitlines() if 'resampled' in line)}")


def _images_per_s(loader: Any) -> float:  # either loader
    list(loader)  # workers start, code is compiled, files get into the page cache
    began = time.perf_counter()
    images = sum(len(labels) for _ in range(3) for _, labels in loader)
    return images / (time.perf_counter() - began)


def _draw(folder: Path) -> None:
    sheet = folder / "contact-sheet.png"
    records = folder / "data" / "cub200.records"
    options = ["--split", "test", "--number", "40", "--output", str(sheet)]
    subprocess.run([sys.executable, "-m", "recordzoo", "show", str(records), *options], check=True)
    _line(f"   {sheet}: 40 test samples of all classes")


def _empty(folder: Path) -> None:
    """Make the folder, or delete the files of an earlier demo; a folder with other files is refused."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARKER).exists():
        sys.exit(f"error: --output {folder} has files in it that no demo made. Choose another directory.")
    for name in ("host", "data", "extracted"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "host").mkdir(parents=True)
    (folder / _MARKER).touch()


@contextmanager
def _told(title: str) -> Iterator[None]:
    _line(title)
    began = time.perf_counter()
    yield
    _line(f"   {time.perf_counter() - began:.1f} s\n")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _line(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
