"""Converting on Dask workers of this machine, beside as many processes of a pool.

    python -m benchmarks.cluster [--photos FOLDER] [--repeats N]

Scheduler, workers and processes run before the clock starts, as on a cluster. They take turns. Two kinds of work:
images stored as they are (mostly copying) and images made smaller (mostly decoding).
"""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.common import arguments, fresh_folder, interleaved, machine, many, median, photographs
from benchmarks.pages import in_short, table, write_section
from recordzoo.base.text import counted

WORKERS = (1, 2, 4)
NUM_CLASSES = 64
SHARD_BYTES = 16 << 20
TRAIN = "ILSVRC2012_img_train.tar"
WORKER_SETTINGS = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "MALLOC_TRIM_THRESHOLD_": "1000000000",
    "MALLOC_MMAP_THRESHOLD_": "33554432",
}
"""Dask looks at the stacks of its workers 100 times a second, and lets them give back each 64 KB of memory at once."""

SECTION = "cluster"

_CONVERT = """
import sys, time
from pathlib import Path
from recordzoo.preparing.preparation import ensure
from recordzoo.preparing.workers import dask_executor
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.reader import RecordReader
import loky
root, how, number, variant = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[5] or None
options = dict(check_hash=False, prepare=True, shard_bytes=int(sys.argv[4]), records_dir=root / "made.records")
options["variant"] = variant
recipe = dataset_recipe("imagenet", "train")
def warm(_):
    import recordzoo.preparing.workers, recordzoo.recipes.declared
    time.sleep(0.5)
class Quiet:
    def begin(self, *_): pass
    def advance(self, *_): pass
    def note(self, _): pass
    def end(self): pass
options["progress"] = Quiet()
def timed(**more):
    begin = time.perf_counter()
    path = ensure(recipe, root, **options, **more)
    return time.perf_counter() - begin, RecordReader(path).digest
if how == "started":
    executor = loky.get_reusable_executor(number, timeout=600)
    list(executor.map(warm, range(number)))
    print(*timed(executor=executor))
    executor.shutdown()
else:
    with dask_executor(how) as executor:
        print(*timed(executor=executor))
"""

HEAD = ("Dask, s (against processes started before)", *(counted(number, "worker") for number in WORKERS))
_TEXT = """\
{table}

{classes} tars of {size_mb:.0f} MB in all, shards of {shard_mb} MB; medians of {repeats}.
`python -m benchmarks.cluster --total-bytes {total_bytes} --repeats {repeats}`; {machine}
"""


def build(folder: Path, photos: list[bytes], total_bytes: int) -> None:
    """Write a train archive in the real layout."""
    images = many(photos, 2 * total_bytes)
    with tarfile.open(folder / TRAIN, "w") as outer:
        for label in range(NUM_CLASSES):
            buffer = io.BytesIO()
            with tarfile.open(fileobj=buffer, mode="w") as inner:
                while buffer.tell() < total_bytes // NUM_CLASSES:
                    data = next(images)
                    info = tarfile.TarInfo(f"n{label:08d}_{buffer.tell()}.JPEG")
                    info.size = len(data)
                    inner.addfile(info, io.BytesIO(data))
            info = tarfile.TarInfo(f"n{label:08d}.tar")
            info.size = buffer.tell()
            buffer.seek(0)
            outer.addfile(info, buffer)


@contextlib.contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Path]:
    """Start a scheduler and workers with Dask's own commands; yield the scheduler's file once they are all there."""
    file = folder / f"scheduler-{workers}.json"
    file.unlink(missing_ok=True)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    root = str(Path(__file__).parent.parent)
    here = {"env": {**os.environ, **WORKER_SETTINGS, "PYTHONPATH": root}, "start_new_session": True}
    common = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
    dask = [sys.executable, "-m", "dask"]
    started = [subprocess.Popen([*dask, "scheduler", *common, "--port", "0"], **quiet, **here)]
    try:
        each = ["--nworkers", str(workers), "--nthreads", "1", "--memory-limit", "0", "--local-directory", str(folder)]
        started.append(subprocess.Popen([*dask, "worker", *common, *each], **quiet, **here))
        from distributed import Client

        while not file.exists():
            time.sleep(0.1)
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(workers)
        yield file
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def convert(folder: Path, how: str, number: int, variant: str, digests: set[str]) -> float:
    """Convert once, in a fresh process, with the archive in the page cache; return the seconds."""
    shutil.rmtree(folder / "made.records", ignore_errors=True)
    os.sync()
    arguments = [str(folder), how, str(number), str(SHARD_BYTES), variant]
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CONVERT, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    seconds, digest = done.stdout.split()
    digests.add(digest)
    return float(seconds)


def cell(folder: Path, number: int, variant: str, repeats: int) -> str:
    """Measure one cell of the table."""
    digests: set[str] = set()
    with cluster(folder, number) as file:

        def on(how: str) -> Callable[[], float]:
            return lambda: convert(folder, how, number, variant, digests)

        on(str(file))()  # the workers import what they need, and the archive is in the page cache
        times = interleaved({"started": on("started"), "dask": on(str(file))}, repeats)
    assert len(digests) == 1, digests
    started, dask = (median(times[name]) for name in ("started", "dask"))
    return f"{dask:.2f} ({dask / started - 1:+.1%})"


def measure(photos: list[bytes], repeats: int, total_bytes: int) -> str:
    """Measure all of it and return the section."""
    folder = fresh_folder("cluster")
    build(folder, photos, total_bytes)
    size = (folder / TRAIN).stat().st_size
    rows = [
        (what, *(cell(folder, number, variant, repeats) for number in WORKERS))
        for variant, what in (("", "images as they are"), ("256", "short side of 256 pixels"))
    ]
    shutil.rmtree(folder)
    return _TEXT.format(
        classes=NUM_CLASSES,
        size_mb=size / 1e6,
        total_bytes=total_bytes,
        shard_mb=SHARD_BYTES >> 20,
        repeats=repeats,
        machine=in_short(machine()),
        table=table(HEAD, rows, numbers=True),
    )


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--total-bytes", type=int, default=1_000_000_000)
    parser.add_argument("--print", action="store_true", help="print the section, write nothing")
    options = parser.parse_args()
    text = measure(photographs(options.photos), options.repeats, options.total_bytes)
    if options.print:
        print(text)
        return
    write_section(SECTION, text)


if __name__ == "__main__":
    main()
