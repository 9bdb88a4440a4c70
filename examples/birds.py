"""The demo's dataset: generated pictures in the layout of CUB-200-2011, and the server that it is downloaded from.

Run as a module, this is the demo's process that is killed.
"""

import hashlib
import io
import re
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from typing_extensions import override

from recordzoo.net.url import RemoteFile

if TYPE_CHECKING:
    from recordzoo import CUB200Record

COLOURS = ["Red", "Orange", "Lime", "Green", "Jade", "Cyan", "Azure", "Blue", "Violet", "Pink"]
IMAGES_PER_CLASS, SIZE = 40, (400, 300)
TOP = "CUB_200_2011/"

Box = tuple[float, float, float, float]


def picture(rng: np.random.Generator, width: int, height: int, hue: float = 0.0, box: Box | None = None) -> Image.Image:
    """Make an RGB picture: a soft background, grain, and in `box` (x, y, w, h) an ellipse of colour `hue` (0..1)."""
    coarse = rng.integers(40, 216, (4, 4, 3), dtype=np.uint8)
    background = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    if box is not None:
        x, y, w, h = box
        colour = Image.new("HSV", (1, 1), (int(hue * 255), 220, 230)).convert("RGB").getpixel((0, 0))
        ImageDraw.Draw(background).ellipse((x, y, x + w, y + h), fill=colour)
    grain = rng.integers(-14, 15, (height, width, 1), dtype=np.int16)  # so that it compresses like a photograph
    pixels: NDArray[np.int16] = np.asarray(background, dtype=np.int16) + grain
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def write_archive(folder: Path) -> RemoteFile:
    """Write the archive; return its name, size and hash, the catalogue's facts of a raw file."""
    rng = np.random.default_rng(0)
    lists: dict[str, list[str]] = {"images.txt": [], "train_test_split.txt": [], "bounding_boxes.txt": []}
    path = folder / "CUB_200_2011.tgz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for number in range(len(COLOURS) * IMAGES_PER_CLASS):
            label = number // IMAGES_PER_CLASS
            name = f"{label + 1:03d}.{COLOURS[label]}_Bird/{COLOURS[label]}_Bird_{number:04d}.jpg"
            width, height = (int(side * rng.uniform(0.8, 1.2)) for side in SIZE)
            x, y = (round(side * rng.uniform(0.1, 0.4)) for side in (width, height))
            w, h = (round(side * rng.uniform(0.3, 0.5)) for side in (width, height))
            file = io.BytesIO()
            picture(rng, width, height, label / len(COLOURS), (x, y, w, h)).save(file, "JPEG", quality=85)
            _add(archive, f"images/{name}", file.getvalue())
            for text, line in zip(lists.values(), (name, number % 2, f"{x} {y} {w} {h}"), strict=True):
                text.append(f"{number + 1} {line}\n")
        for list_name, text in lists.items():
            _add(archive, list_name, "".join(text).encode())
    data = path.read_bytes()
    return RemoteFile(path.name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(TOP + name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


class DemoServer(ThreadingHTTPServer):
    """Serve one file at `url` while the `with` block lasts; the first answer stops at byte `held_at`.

    `log` has the first byte and the number of bytes of each answer.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.path = path
        self.url = f"http://127.0.0.1:{self.server_port}/{path.name}"
        self.size_bytes = path.stat().st_size
        self.held_at = self.size_bytes * 3 // 5
        self.log: list[tuple[int, int]] = []

    @override
    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    @override
    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections of killed clients."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: DemoServer

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the demo."""

    def do_GET(self) -> None:
        """Send the file, or the rest of it."""
        total = self.server.size_bytes
        end = total if self.server.log else self.server.held_at
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        self.server.log.append((start, end - start))
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(total - start))
        self.send_header("ETag", '"demo"')
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        self.wfile.write(self.server.path.read_bytes()[start:end])
        if end < total:
            self.rfile.read(1)  # nothing comes: this waits until the client is gone


def open_birds(root: Path, remote: RemoteFile, **options: Any) -> "CUB200Record":  # Any: CUB200Record's own options
    """Open CUB-200-2011 below `root`; download it from `remote` and convert it if needed."""
    from recordzoo import CUB200Record  # imports torch; the tests' pictures need none

    class DemoBirds(CUB200Record):
        raw_files = (remote,)

    return DemoBirds(root, download=True, **options)


if __name__ == "__main__":
    root, name, url, size, sha256 = sys.argv[1:]
    open_birds(Path(root), RemoteFile(name, (url,), size_bytes=int(size), sha256=sha256))
