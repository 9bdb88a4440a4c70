"""`recordzoo demo`: what it does, in order, and what it says of it."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recordzoo.cli import output
from recordzoo.cli.demo import birds
from recordzoo.cli.demo.server import DemoServer
from recordzoo.errors import ArgumentError, RecordZooError
from recordzoo.program import command
from recordzoo.progress import format_bytes
from recordzoo.sources.download import RemoteFile

NUM_CLASSES, IMAGES_PER_CLASS, SIZE = 200, 10, (200, 150)
_MARKER = ".recordzoo-demo"
_KILL_TIMEOUT_S = 120.0


def run_demo(folder: Path) -> int:
    """Run the demo; everything that it writes lies in `folder`."""
    began = time.perf_counter()
    _empty(folder)
    with _told("1. A CUB-200-2011 archive in the real layout, from generated pictures"):
        remote = _make_archive(folder)
    with DemoServer(folder / "host" / remote.name, (remote.size_bytes or 0) * 3 // 5) as server:
        remote = RemoteFile(remote.name, (server.url,), size_bytes=remote.size_bytes, sha256=remote.sha256)
        with _told("2. CUB200Record(root, download=True) in a process that is killed on the way"):
            there = _download_and_kill(folder / "data", remote, server)
        with _told("3. The same again: the download resumes, the archive is converted, the record set published"):
            _resume(folder / "data", remote, server, there)
    with _told("4. Every sample against torchvision's ImageFolder over the extracted archive"):
        _compare(folder, remote)
    with _told("5. Two short epochs through a DataLoader with two workers"):
        _train(folder / "data", remote)
    with _told("6. A contact sheet, and a full check of the record set"):
        _finish(folder, remote)
    _line(f"All done in {time.perf_counter() - began:.0f} s. Look around:")
    _line(f"  {folder / 'contact-sheet.png'}")
    _line(f"  {command('info', folder / 'data' / 'cub200.records')}")
    _line(f"  {command('show', folder / 'data' / 'cub200.records', '--html')}")
    return 0


def _make_archive(folder: Path) -> RemoteFile:
    made = birds.build(NUM_CLASSES, IMAGES_PER_CLASS, size=SIZE)
    (folder / "host").mkdir()
    path = made.write_archive(folder / "host")
    size = path.stat().st_size
    _line(f"   {len(made.images):,} pictures of {NUM_CLASSES} classes, {path.name}: {format_bytes(size)}")
    return RemoteFile(path.name, (), size_bytes=size, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _download_and_kill(root: Path, remote: RemoteFile, server: DemoServer) -> int:
    """Let another process download; kill it when the server has stopped sending and it has written something."""
    arguments = [str(root), remote.name, *remote.urls, str(remote.size_bytes), str(remote.sha256)]
    with subprocess.Popen([sys.executable, "-m", "recordzoo.cli.demo.dataset", *arguments]) as process:
        try:
            end = time.monotonic() + _KILL_TIMEOUT_S
            while _written(root, remote) < server.hold_after * 9 // 10:
                if process.poll() is not None or time.monotonic() > end:
                    raise RecordZooError("The demo's download ended before it could be interrupted.")
                server.holding.wait(0.05)
                time.sleep(0.05)
        finally:
            process.kill()
    there = _written(root, remote)
    _line(f"   killed with {format_bytes(there)} of {format_bytes(remote.size_bytes or 0)} on disk")
    return there


def _written(root: Path, remote: RemoteFile) -> int:
    parts = [path for path in root.glob(f"{remote.name}.part*") if not path.name.endswith(".json")]
    return max((path.stat().st_size for path in parts), default=0)


def _resume(root: Path, remote: RemoteFile, server: DemoServer, there: int) -> None:
    from recordzoo.cli.demo.dataset import open_birds

    began = time.perf_counter()
    dataset = open_birds(root, remote)
    made_s = time.perf_counter() - began
    answer = server.log[-1]
    total = remote.size_bytes or 0
    if len(server.log) != 2 or (answer.start, answer.sent_bytes) != (there, total - there):
        raise RecordZooError(f"The demo's download did not resume at {there:,}: the server's log is {server.log}.")
    _line(f"   asked for bytes from {there:,}; the server sent {answer.sent_bytes:,}, the rest and no more")
    began = time.perf_counter()
    open_birds(root, remote)
    _line(f"   {len(dataset):,} training samples after {made_s:.1f} s; opened again in {_ms(began)}")


def _compare(folder: Path, remote: RemoteFile) -> None:
    from torchvision.datasets import ImageFolder

    from recordzoo.cli.demo.dataset import open_birds

    began = time.perf_counter()
    with tarfile.open(folder / "host" / remote.name) as archive:
        archive.extractall(folder / "extracted", filter="data")
    extracted_s = time.perf_counter() - began
    began = time.perf_counter()
    theirs = ImageFolder(folder / "extracted" / birds.IMAGES)
    scanned = _ms(began)
    ours = open_birds(folder / "data", remote, split="all")
    if len(ours) != len(theirs) or ours.classes != theirs.classes:
        raise RecordZooError("The record set has other samples than ImageFolder.")
    for position, ((image, label), (their_image, their_label)) in enumerate(zip(ours, theirs, strict=True)):
        if label != their_label or image.tobytes() != their_image.tobytes():
            raise RecordZooError(f"Sample {position} differs: {theirs.samples[position][0]}.")
    _line(f"   (extracted in {extracted_s:.1f} s, scanned in {scanned})")
    _line(f"   {len(ours):,} of {len(theirs):,} samples are the same: order, every pixel, every label")


def _train(root: Path, remote: RemoteFile) -> None:
    from recordzoo.cli.demo.dataset import open_birds
    from recordzoo.cli.demo.train import train, transform

    dataset = open_birds(root, remote, split="train", transform=transform())
    for line in train(dataset, NUM_CLASSES):
        _line(f"   {line}")


def _finish(folder: Path, remote: RemoteFile) -> None:
    from recordzoo.cli.demo.dataset import open_birds
    from recordzoo.cli.demo.sheet import write_sheet
    from recordzoo.progress import LogProgress
    from recordzoo.records.verify import verify

    path = folder / "contact-sheet.png"
    count = write_sheet(open_birds(folder / "data", remote, split="test", target_type=["category", "bbox"]), path)
    _line(f"   {path}: {count} test samples with their boxes")
    report = verify(folder / "data" / "cub200.records", full=True, progress=LogProgress())
    if not report.ok:
        raise RecordZooError(f"The demo's record set is damaged: {'; '.join(report.problems)}")
    _line(f"   verified: {', '.join(f'{value:,} {what}' for what, value in report.checked.items())}")


def _empty(folder: Path) -> None:
    """Make the folder, or clear away what an earlier demo made; nobody else's."""
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARKER).exists():
        raise ArgumentError(f"--output {folder} has files in it that no demo made. Choose another directory.")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARKER).touch()
    for name in ("host", "data", "extracted"):
        shutil.rmtree(folder / name, ignore_errors=True)


@contextmanager
def _told(title: str) -> Iterator[None]:
    _line(title)
    began = time.perf_counter()
    yield
    _line(f"   {time.perf_counter() - began:.1f} s\n")


def _ms(began: float) -> str:
    return f"{1000 * (time.perf_counter() - began):.1f} ms"


def _line(text: str) -> None:
    output.put(text)
    output.flush()
