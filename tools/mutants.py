"""Measure the tests: break covered lines at random, one at a time, and count how many faults the tests notice.

    python tools/mutants.py --scratch /tmp/mutants --seed 1 --count 10 --result tools/mutants-before.json

The script clones the last commit of `--tree` into the scratch folder and changes only this clone. It first runs the
fast tests there under coverage, which takes long; a later run with the same scratch folder reuses this measurement.
Tests that fail under coverage are left out. Each fault (a mutant) is then tried with the tests that cover its line:
cheapest first, at most `--tests` tests and `--budget` seconds. Tests that notice a fault, but also fail without it, are
left out in a second pass. The same command continues an interrupted run.

Needs coverage and pytest-cov, which the extra `dev` does not install, and Linux.
"""

import argparse
import importlib
import itertools
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mutations import Change, apply, find_changes

ROOMS = ["loader", "cli", "datasets", "formats", "recipes", "preparing", "records", "net", "raw", "own", "sets"]
FAST = ["-n", "2", "--dist", "loadgroup", "-m", "not slow", "--ignore=tests/frameworks"]
HANG_S = 60  # a test that takes longer fails
LIMIT_S = 240  # all tests of a mutant
COLLECTING_S = 0.001  # to collect one test: for a single test, pytest collects all of its file


def _test_id(name: str) -> str:
    return re.sub(r"@[^\]]*$", "", name)  # pytest-xdist appends a test's group


class Outcomes:
    """A pytest plugin: write the seconds of each test that passed, and the tests that failed, into a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = defaultdict(float)
        self.passed: set[str] = set()
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's time and outcome."""
        test = _test_id(report.nodeid)
        self.seconds[test] += report.duration
        if report.failed:
            self.failed.append(test)
        elif report.when == "call" and report.passed:
            self.passed.add(test)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        seconds = {test: round(self.seconds[test], 3) for test in sorted(self.passed - set(self.failed))}
        self.path.write_text(json.dumps({"seconds": seconds, "failed": self.failed}))


def _run_pytest(scratch: Path, report: Path, arguments: list[str]) -> int:
    """Run pytest on the clone, in a process of its own."""
    tree = scratch / "tree"
    os.setsid()
    log = os.open(scratch / "pytest.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(tree)
    sys.path.insert(0, os.fspath(tree))
    path = f"{tree}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    os.environ |= {"PYTHONPATH": path, "TMPDIR": f"{scratch}/tmp", "COVERAGE_FILE": f"{scratch}/coverage"}
    tempfile.tempdir = None
    return pytest.main(["-p", "no:cacheprovider", "-q", *arguments], plugins=[Outcomes(report)])


def _pytest(scratch: Path, arguments: list[str], limit_s: float | None = None) -> tuple[int | None, dict[str, Any]]:
    """Run pytest on the clone; return its exit status (None after `limit_s`), and the plugin's report."""
    report = scratch / "report.json"
    report.write_text(json.dumps({"seconds": {}, "failed": []}))
    shutil.rmtree(scratch / "tmp", ignore_errors=True)
    (scratch / "tmp").mkdir()
    child = os.fork()
    if not child:
        try:
            os._exit(_run_pytest(scratch, report, arguments))
        finally:  # only after an exception
            traceback.print_exc()
            os._exit(3)
    handle = os.pidfd_open(child)
    ended = bool(select.select([handle], [], [], limit_s)[0])
    os.close(handle)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if ended else None, json.loads(report.read_text())


def _run_tests(scratch: Path, tests: list[str], *options: str, limit_s: float | None = None) -> tuple[int | None, dict]:
    (scratch / "tests.txt").write_text("\n".join(tests))
    return _pytest(scratch, [f"--timeout={HANG_S}", *options, f"@{scratch / 'tests.txt'}"], limit_s)


def measure(tree: Path, scratch: Path) -> dict[str, float]:
    """Clone the tree and run its fast tests under coverage, unless done; return the seconds of tests that passed."""
    passed = scratch / "passed.json"
    if not passed.exists():
        scratch.mkdir(parents=True, exist_ok=True)
        if not (scratch / "tree").exists():
            clone = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", tree, scratch / "tree"]
            subprocess.run(clone, check=True)
        status, report = _pytest(scratch, [*FAST, "--cov=recordzoo", "--cov-context=test", "--cov-report="])
        if status not in (0, 1):
            sys.exit(f"The tests under coverage ended with {status}; see {scratch}/pytest.log")
        print(f"{len(report['seconds'])} tests passed under coverage, {len(set(report['failed']))} failed", flush=True)
        passed.write_text(json.dumps(report["seconds"]))
    return json.loads(passed.read_text())


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def covered_lines(scratch: Path, room: str, seconds: dict[str, float]) -> dict[tuple[str, int], list[str]]:
    """Return the tests that cover each line of a room, cheapest first."""
    from coverage import CoverageData

    data = CoverageData(os.fspath(scratch / "coverage"))
    data.read()
    tree = (scratch / "tree").resolve()
    tests_of_file = Counter(map(_file_of, seconds))
    cost = {test: seconds[test] + COLLECTING_S * tests_of_file[_file_of(test)] for test in seconds}
    lines = {}
    for file in sorted((tree / "recordzoo" / room).rglob("*.py")):
        for line, contexts in data.contexts_by_lineno(os.fspath(file)).items():
            tests = {_test_id(context.rpartition("|")[0]) for context in contexts} & cost.keys()
            if tests:
                lines[file.relative_to(tree).as_posix(), line] = sorted(tests, key=lambda test: (cost[test], test))
    return lines


def _affordable(tests: list[str], seconds: dict[str, float], most: int, budget_s: float) -> list[str]:
    """Return the first tests that fit into count and time, at least one; those of a file together."""
    times = itertools.accumulate(seconds[test] for test in tests)
    chosen = [test for test, time in zip(tests[:most], times, strict=False) if time <= budget_s] or tests[:1]
    files = list(dict.fromkeys(map(_file_of, chosen)))
    return sorted(chosen, key=lambda test: files.index(_file_of(test)))


def try_mutant(scratch: Path, file: str, change: Change, tests: list[str]) -> str | None:
    """Break a file and run the tests; return the one that notices, or how else the run ended, or None."""
    path = scratch / "tree" / file
    whole, times = path.read_bytes(), path.stat()
    try:
        path.write_bytes(apply(whole, change))
        status, report = _run_tests(scratch, tests, "-x", limit_s=LIMIT_S)
    finally:
        path.write_bytes(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what numba has compiled stays valid
    if status == 0:
        return None
    return report["failed"][0] if report["failed"] else "time limit" if status is None else f"exit status {status}"


def _mutants(
    options: argparse.Namespace, room: str, seconds: dict[str, float], known: list[dict[str, Any]], broken: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield the mutants of a room with their outcomes; do not try again what is `known`, nor use tests in `broken`."""
    lines = covered_lines(options.scratch, room, seconds)
    draw = random.Random(f"{options.seed} {room}")
    for file, line in draw.sample(sorted(lines), len(lines)):
        source = (options.scratch / "tree" / file).read_bytes()
        if not (changes := find_changes(source).get(line)):
            continue
        kind = draw.choice(sorted({change.kind for change in changes}))
        change = draw.choice([change for change in changes if change.kind == kind])
        mutant = {"room": room, "file": file, "line": line, "kind": kind, "now": change.now}
        mutant["was"] = source[change.start : change.end].decode()
        done = next((other for other in known if mutant.items() <= other.items()), None)
        tests = [test for test in lines[file, line] if test not in broken]
        if done is None and tests:
            chosen = _affordable(tests, seconds, options.tests, options.budget)
            noticed_by = try_mutant(options.scratch, file, change, chosen)
            if noticed_by not in [None, *chosen] and _run_tests(options.scratch, chosen, limit_s=LIMIT_S)[0] != 0:
                continue  # the run ends so without the fault, too
            done = {**mutant, "covering": len(tests), "tried": len(chosen), "noticed_by": noticed_by}
            print(room, f"{file}:{line}", kind, "->", noticed_by, flush=True)
        if done is not None:
            yield done


def _write(path: Path, settings: dict[str, Any], broken: set[str], mutants: list[dict[str, Any]]) -> None:
    total = Counter(mutant["room"] for mutant in mutants)
    noticed = Counter(mutant["room"] for mutant in mutants if mutant["noticed_by"])
    rooms = {room: {"noticed": noticed[room], "total": total[room]} for room in total}
    document = {**settings, "rooms": rooms, "broken_tests": sorted(broken), "mutants": mutants}
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> None:
    """Try all mutants; write the result after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=Path(__file__).resolve().parents[1], help="checkout to measure")
    parser.add_argument("--scratch", type=Path, required=True, help="folder for the clone and the coverage data")
    parser.add_argument("--result", type=Path, required=True, help="JSON file to write or to continue")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, help="subpackages of recordzoo")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10, help="mutants in each room")
    parser.add_argument("--tests", type=int, default=100, help="most tests tried on a mutant")
    parser.add_argument("--budget", type=float, default=20, help="most seconds of these tests, measured under coverage")
    options = parser.parse_args()
    options.scratch = options.scratch.resolve()
    seconds = measure(options.tree, options.scratch)
    for name in ["torch", "torchvision", "numba", "scipy"]:  # once, instead of once a mutant
        importlib.import_module(name)
    head = ["git", "-C", options.scratch / "tree", "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    settings = {"commit": commit, "passed_tests": len(seconds)}
    settings |= {name: getattr(options, name) for name in ("seed", "count", "tests", "budget")}
    before = json.loads(options.result.read_text()) if options.result.exists() else {}
    known, broken = before.get("mutants", []), set(before.get("broken_tests", []))
    while True:
        mutants: list[dict[str, Any]] = []
        rooms = [_mutants(options, room, seconds, known, broken) for room in options.rooms]
        for room in rooms * options.count:  # in turn, so that a run cut short has as many of each room
            mutants += itertools.islice(room, 1)
            _write(options.result, settings, broken, mutants + [other for other in known if other not in mutants])
        # Without any fault, the tests that noticed one must pass.
        noticing = {mutant["noticed_by"] for mutant in mutants if mutant["noticed_by"] in seconds}
        failing = noticing - _run_tests(options.scratch, sorted(noticing))[1]["seconds"].keys()
        if not failing:
            return
        broken |= failing
        known = [mutant for mutant in mutants if mutant["noticed_by"] not in failing]


if __name__ == "__main__":
    main()
