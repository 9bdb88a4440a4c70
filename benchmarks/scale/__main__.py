"""How opening, shuffling, resuming and preparing grow with the number of samples: ``python -m benchmarks.scale``.

The record sets are made under ``benchmarks/.work`` and deleted afterwards: 1 GB for each 14 million samples.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import pages
from benchmarks.common import fresh_folder, machine
from benchmarks.scale import preparation
from benchmarks.scale.make import make
from benchmarks.scale.measures import MEASURES, Numbers
from benchmarks.scale.page import NUMBERS, SECTION, render

ASSEMBLED = 10_000_000
"""More samples than this are not put together: the page says how the memory grows."""


def measure(num_samples: int, names: list[str]) -> dict[str, Numbers]:
    """Make a record set, measure it, and delete it."""
    folder = fresh_folder(f"scale-{num_samples}")
    found: dict[str, Numbers] = {}
    try:
        path = folder / "scale.records"
        if names != ["preparation"]:
            make(path, num_samples)
            found["files"] = {each.name: each.stat().st_size for each in path.iterdir() if each.suffix != ".lmdb"}
        for name in names:
            if name == "preparation":
                if num_samples <= ASSEMBLED:
                    shutil.rmtree(path, ignore_errors=True)
                    found[name] = preparation.measure(folder, num_samples)
            else:
                found[name] = _in_fresh_process(name, path)
            print(f"{num_samples:,} {name}: {json.dumps(found.get(name))}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _in_fresh_process(name: str, path: Path) -> Numbers:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale.measures", name, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: Numbers = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    every = [*MEASURES, "preparation"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=[1_000_000, 10_000_000], help="how many")
    parser.add_argument("--only", nargs="+", choices=every, default=every, help="measure only these")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the section from the last numbers")
    options = parser.parse_args()
    for num_samples in [] if options.page else options.samples:
        found = measure(num_samples, options.only)
        known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
        column = known.setdefault(str(num_samples), {})
        column.update({**found, "machine": machine()})
        NUMBERS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    pages.write_section(SECTION, render())


if __name__ == "__main__":
    main()
