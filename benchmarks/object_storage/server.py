"""An S3 server of this machine, and a slow link in front of it, in processes of their own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ANY = "benchmark"  # credentials that clients want to be there, and the server does not look at


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve the folders of a folder as buckets: gives the port.

    Raises:
        OSError: rclone is not installed, or does not start.
    """
    port = _free_port()
    rclone = Path(sys.executable).with_name("rclone")
    # Without --auth-key it takes any credentials, and requests without a signature too, as WebDataset's curl sends.
    command = [rclone, "serve", "s3", folder, "--addr", f"127.0.0.1:{port}", "--read-only", "--vfs-cache-mode", "off"]
    cheap = ["--buffer-size", "0", "--no-checksum"]  # it would hash all that it sends: a third of a core at 100 MB/s
    with _process([*map(str, command), *cheap, "--config", os.devnull, "--log-level", "ERROR"]):
        _wait_for(port)
        yield port


@contextmanager
def linked(port: int, latency_s: float, bytes_per_s: float) -> Iterator[int]:
    """Put a link in front of a server: gives its port."""
    command = [sys.executable, "-m", "benchmarks.object_storage.link", str(port), str(latency_s), str(bytes_per_s)]
    with _process(command) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


def use(port: int) -> None:
    """Let every S3 client of this process and its children go to this port, and nowhere else."""
    endpoint = f"http://127.0.0.1:{port}"
    os.environ.update(
        AWS_ENDPOINT_URL=endpoint,
        S3_ENDPOINT_URL=endpoint,  # MosaicML Streaming's own name for it
        FSSPEC_S3_ENDPOINT_URL=endpoint,
        AWS_ACCESS_KEY_ID=_ANY,
        AWS_SECRET_ACCESS_KEY=_ANY,
        AWS_DEFAULT_REGION="us-east-1",
        AWS_EC2_METADATA_DISABLED="true",
    )


@contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent.parent)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
