"""An epoch from object storage: ``python -m benchmarks.object_storage --photos FOLDER [--line read/records ...]``.

An S3 server runs on this machine; a link in front of it delays each request and limits the bandwidth. Every
measurement goes to ``docs/benchmarks-object-storage.json`` at once, from which its section is written. Needs root, to
drop the caches.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common import can_drop_caches, photographs, wait_for_compiling
from benchmarks.object_storage.contestants import CONTESTANTS, Contestant
from benchmarks.object_storage.data import Store, make_store
from benchmarks.object_storage.epochs import forget_all_but, link_speed, measure
from benchmarks.object_storage.page import Numbers
from benchmarks.object_storage.server import linked, served, use
from benchmarks.object_storage.work import WORKS
from recordzoo.cli.bench import in_fresh_process

LINK = "link"
LINES = [LINK, *(f"{work}/{name}" for work in WORKS for name in CONTESTANTS)]


def main() -> None:
    options = _options()
    if not can_drop_caches():
        sys.exit("The benchmark needs root, to drop the kernel's caches.")
    photos = photographs(options.photos)
    store = make_store(photos, options.mb * 1_000_000, options.shard_mb << 20)
    settings = {
        "photos": f"{len(photos)} {'real photographs' if options.photos else 'generated photographs'}",
        "num_photos": len(files := list(store.tree.rglob("*.jpg"))),
        "num_bytes": sum(path.stat().st_size for path in files),
        "shard_bytes": store.shard_bytes,
        "latency_s": options.latency_ms / 1000,
        "link_bytes_per_s": options.link_mb * 1e6,
    }
    numbers = Numbers(settings)
    lines = options.line or LINES
    if not options.resume:
        numbers.forget(lines)
    os.environ["RECORDZOO_QUIET"] = "1"
    problems = {module: _write(store, module) for module in sorted({_contestant(line).module for line in lines})}
    latency_s, bytes_per_s = settings["latency_s"], settings["link_bytes_per_s"]
    with served(store.bucket.parent) as server, linked(server, latency_s, bytes_per_s) as port:
        use(port)
        for _ in range(options.repeats):
            for line in lines:
                if not numbers.is_done(line, options.repeats):
                    problem = problems[_contestant(line).module]
                    run = {"problem": problem} if problem else _measure(line, store, port)
                    numbers.add(line, run)
                    print(f"{line}: {run}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    wait_for_compiling()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder with JPEG photographs; default: generated ones")
    parser.add_argument("--line", action="append", choices=LINES, help="only this line; may be repeated")
    parser.add_argument("--resume", action="store_true", help="keep what was measured before an interruption")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--mb", type=int, default=500, help="size of all photographs")
    parser.add_argument("--shard-mb", type=int, default=16, help="size of a file that holds many, in MiB")
    parser.add_argument("--latency-ms", type=float, default=20, help="of each request")
    parser.add_argument("--link-mb", type=float, default=100, help="bandwidth of the link in MB/s")
    return parser.parse_args()


def _contestant(line: str) -> Contestant:
    """Return whose line it is; the link's own speed is measured with our files."""
    return CONTESTANTS["records" if line == LINK else line.partition("/")[2]]


def _write(store: Store, module: str) -> str:
    """Have a module write its format; returns why it cannot."""
    try:
        in_fresh_process(store.write, module)
    except Exception as err:  # noqa: BLE001 - one that cannot be installed or fails is a line of the page
        return _problem(err)
    return ""


def _measure(line: str, store: Store, port: int) -> Any:
    """Measure a line once: the link's bytes a second, seconds of a contestant's epochs, or what its problem is."""
    contestant = _contestant(line)
    folder = store.bucket / contestant.module
    forget_all_but(None if contestant.is_local else folder)
    try:
        if line == LINK:
            return link_speed("127.0.0.1", port, list(_paths(store)))
        source = folder if contestant.is_local else f"s3://{store.bucket.name}/{contestant.module}"
        work = WORKS[line.partition("/")[0]]
        return asdict(in_fresh_process(measure, contestant, work, source, store.cache, store.tree))
    except Exception as err:  # noqa: BLE001 - as above
        return {"problem": _problem(err)}


def _problem(err: Exception) -> str:
    """Return the line of an error that says most: those of worker processes hold a traceback."""
    lines = f"{type(err).__name__}: {err}".splitlines()
    return next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception): ", line)), lines[0])


def _paths(store: Store) -> Iterator[str]:
    for path in sorted((store.bucket / "records").rglob("*.lmdb")):
        yield f"/{path.relative_to(store.bucket.parent)}"


if __name__ == "__main__":
    main()
