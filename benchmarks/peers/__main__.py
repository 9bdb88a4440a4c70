"""Everybody's loader on the same photographs: ``python -m benchmarks.peers --photos FOLDER [--row NAME ...]``.

Each row's numbers go to ``docs/benchmarks-peers.json``, from which section and chart are written. Rows that are not run
now keep their numbers.
"""

import argparse
import sys
from pathlib import Path

from benchmarks import pages
from benchmarks.common import can_drop_caches, photographs, wait_for_compiling
from benchmarks.peers import page
from benchmarks.peers.rows import COLD, ROWS, UINT8
from benchmarks.peers.run import cold_epoch, run_row


def main() -> None:
    wait_for_compiling()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder with JPEG photographs; default: generated ones")
    parser.add_argument("--row", action="append", choices=[*ROWS, "cold"], help="only this row; may be repeated")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    photos = photographs(options.photos)
    for name in options.row or [*ROWS, "cold"]:
        print(f"{name}:", file=sys.stderr, flush=True)
        if name == "cold" and not can_drop_caches():
            print("  needs root, to drop the caches; left out", file=sys.stderr)
            continue
        if name in ROWS and sys.version_info < ROWS[name].python:
            print("  needs Python {}.{}; left out".format(*ROWS[name].python), file=sys.stderr)
            continue
        if name in ROWS:
            page.keep(name, run_row(ROWS[name], photos, options.repeats))
        else:
            page.keep(name, cold_epoch(COLD, UINT8, photos, options.repeats))
    pages.write(page.render())


if __name__ == "__main__":
    main()
