"""What the benchmarks share: photographs, cold caches, interleaved repetitions, and the page they write."""

import argparse
import contextlib
import datetime
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

WORK = Path(__file__).parent / ".work"
REPEATS = 7


@dataclass(frozen=True)
class Line:
    """One measured line of the page: what, against what, the target, what came out."""

    what: str
    against: str
    wanted: str
    measured: str


def photographs(folder: Path | None) -> list[bytes]:
    """Return photographs as JPEG bytes: those of a folder, or generated ones of the same sizes.

    Generated ones (noise over coarse colours) have about ImageNet's dimensions and file sizes, mean 110 KB;
    sizes and speeds of reading are the same as with real ones, speeds of decoding about so.
    """
    if folder is not None:
        return [path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix.lower() in (".jpg", ".jpeg")]
    import io

    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    photos = []
    for _ in range(250):
        width, height = (int(side) for side in rng.integers(300, 620, 2))
        coarse = Image.fromarray(rng.integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8))
        picture = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)).astype(np.int16)
        picture = np.clip(picture + rng.normal(0, 9, picture.shape), 0, 255).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(picture).save(buffer, "JPEG", quality=int(rng.integers(80, 95)))
        photos.append(buffer.getvalue())
    return photos


def many(photos: list[bytes], total_bytes: int) -> Iterator[bytes]:
    """Repeat photographs up to a size, each with other bytes behind its end, so that no two files are the same."""
    written = number = 0
    while written < total_bytes:
        data = photos[number % len(photos)] + number.to_bytes(8, "big")
        written += len(data)
        number += 1
        yield data


def drop_caches() -> None:
    """Write everything out and make the kernel forget all file contents (needs root)."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def can_drop_caches() -> bool:
    """Whether `drop_caches` works here."""
    try:
        drop_caches()
    except OSError:
        return False
    return True


def interleaved(variants: Mapping[str, Callable[[], float]], repeats: int = REPEATS) -> dict[str, list[float]]:
    """Run each variant in turn, `repeats` times over; a variant returns what it measured."""
    results: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(repeats):
        for name, run in variants.items():
            results[name].append(run())
            print(f"  {number + 1}/{repeats} {name}: {results[name][-1]:.3f}", file=sys.stderr, flush=True)
    return results


def median(values: list[float]) -> float:
    return statistics.median(values)


def ratio(numerator: list[float], denominator: list[float]) -> float:
    """Return the ratio of medians."""
    return median(numerator) / median(denominator)


def in_fresh_process(code: str, *arguments: object, python: Path | str = sys.executable) -> str:
    """Run a piece of Python in a new interpreter and return what it prints."""
    command = [str(python), "-W", "ignore", "-c", code, *map(str, arguments)]
    # As where packages are installed; otherwise each process would compile ours, and those of others are compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent, env=environment
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


def fresh_folder(name: str) -> Path:
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def wait_for_compiling() -> None:
    """Let loaders here and in other processes compile before their first batch, not beside the batches that count."""
    os.environ["RECORDZOO_COMPILE"] = "wait"


def arguments(description: str) -> argparse.ArgumentParser:
    wait_for_compiling()
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--photos", type=Path, help="a folder with JPEG photographs; default: generated ones")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    return parser


def machine() -> str:
    """Describe machine, versions and date for the page."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, KeyError):
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
        about = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())}
        # A cloud's machine says "AMD EPYC" of each generation: family and model tell them apart.
        cpu = f"{about['model name']} (family {about['cpu family']} model {about['model']})"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "torchvision", "pillow", "numpy", "lmdb"))
    return (
        f"{cpu}, {cores} cores, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, {packages}; {datetime.date.today().isoformat()}"
    )
