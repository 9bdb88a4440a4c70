"""What putting together a record set of N samples takes, of their rows alone: no image is written.

The rows of units of 250,000 samples, with names like ImageNet's, are laid into a build directory, as if they were
converted. Then `assemble` puts the set together in a process of its own, whose peak memory is noted.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.scale.make import name_of
from recordzoo.base.progress import LogProgress
from recordzoo.preparing.assemble import Finished, assemble
from recordzoo.preparing.convert import ShardFacts, StoredValue, UnitEnd, load_shard, save_shard
from recordzoo.preparing.publish import Build, Output
from recordzoo.recipes.folders import FolderRecipe
from recordzoo.records.manifest import ShardSpec

_IN_UNIT = 250_000


def measure(work: Path, num_samples: int) -> dict[str, float]:
    """Return seconds and peak megabytes of assembling a record set."""
    code = "import sys; from benchmarks.scale import preparation as p; p.{}(p.Path(sys.argv[1]), int(sys.argv[2]))"
    for step in ("lay", "put_together"):
        command = [sys.executable, "-W", "ignore", "-c", code.format(step), str(work), str(num_samples)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def lay(work: Path, num_samples: int) -> None:
    """Write the files of all shards, as converting them would."""
    laid = work / "laid"
    laid.mkdir()
    for number, start in enumerate(range(0, num_samples, _IN_UNIT)):
        count = min(_IN_UNIT, num_samples - start)
        values = [StoredValue("image", name_of(start + i), 100_000, i, 1) for i in range(count)]
        offsets = np.arange(count, dtype=np.uint64) * 100_000
        spec = ShardSpec("", count * 100_000, count, 4096, count * 25, f"sha256:{0:064}")
        facts = ShardFacts(number, 0, spec, count, True, "")
        save_shard(laid, facts, values, offsets, UnitEnd())


def put_together(work: Path, num_samples: int) -> None:
    """Assemble the set; print what that took."""
    build = Build(Output(work / "whole.records"))
    build.claim({"of": "rows"}, 0)
    finished = Finished(build, LogProgress())
    for path in sorted((work / "laid").iterdir()):
        path.rename(build.path / path.name)
        facts = load_shard(build.path / path.name).facts
        (build.path / f"{facts.stem}.lmdb").touch()
        finished.add([facts])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    assemble(finished, FolderRecipe(), "tree", ())
    took = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    build.remove()
    print(json.dumps({"assemble_cpu_s": took, "assemble_peak_mb": (peak - before) * 1024 / 1e6}))
