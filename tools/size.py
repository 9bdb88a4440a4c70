"""Print the size of the project beside its limits: features, package, modules, tests and pages.

    python -m tools.size [--check]

`--check` exits with 1 if something is over its limit. A feature is a list of glob patterns of modules; a pattern that
matches no module is an error: otherwise the table would not count a module that was moved.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

PACKAGE, MODULES, TESTS, WORDS = 51_000, 220, 47_000, 30_000
"""The most lines and modules of the package, lines of tests and words of pages."""

LONGEST = 650
"""The most lines of one module."""


class Feature(NamedTuple):
    """A feature with its limit in lines, and its modules as patterns below `recordzoo/`."""

    name: str
    limit: int
    patterns: tuple[str, ...]


FEATURES = (
    Feature("merge, split, subset", 950, ("sets/merge.py", "sets/split.py", "sets/subset.py")),
    Feature("contact sheet, notebook, show", 600, ("preview.py",)),
    Feature("bench", 350, ("cli/bench.py",)),
    Feature("cache ls, cache rm", 250, ("cli/cache.py",)),
    Feature("record sets at URLs", 1_300, ("net/cache.py", "net/store.py", "net/failures.py", "records/remote*.py")),
    Feature("copy, push, pull, Hub", 950, ("sets/copy.py", "sets/places.py", "sets/push.py", "net/hub.py")),
    Feature("exports", 500, ("formats/export.py", "formats/to_hf.py")),
    Feature("changed raw files", 300, ("preparing/changes.py",)),
    Feature("pickles of others", 180, ("recipes/pickles.py",)),
    Feature("lists", 1_300, ("own/columns.py", "own/lists.py", "own/listing.py")),
    Feature("own data", 1_900, tuple(f"own/{name}.py" for name in ("fields", "sample", "targets", "values", "writer"))),
)


def lines(paths: Iterable[Path]) -> int:
    """Count the lines of files."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def modules(feature: Feature, package: Path) -> set[Path]:
    """Return the modules of a feature.

    Raises:
        LookupError: A pattern matches no module.
    """
    found: set[Path] = set()
    for pattern in feature.patterns:
        here = set(package.glob(pattern))
        if not here:
            raise LookupError(
                f"{feature.name}: no module matches recordzoo/{pattern}. Change FEATURES in tools/size.py."
            )
        found |= here
    return found


def table(root: Path = ROOT) -> list[tuple[str, int, int]]:
    """Return (what, limit, now) of each feature and of the whole.

    Raises:
        LookupError: The pattern of a feature matches no module.
    """
    package = root / "recordzoo"
    everything = sorted(package.rglob("*.py"))
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    longest = max(everything, key=lambda path: lines([path]))
    tests = root / "tests"  # with environments in hidden folders
    return [
        *((each.name, each.limit, lines(modules(each, package))) for each in FEATURES),
        (f"longest module, {longest.relative_to(package)}", LONGEST, lines([longest])),
        ("modules", MODULES, len(everything)),
        ("lines of the package", PACKAGE, lines(everything)),
        (
            "lines of tests",
            TESTS,
            lines(path for path in tests.rglob("*.py") if path.relative_to(tests).parts[0][0] != "."),
        ),
        ("words of pages", WORDS, words),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 with `--check` if something is over its limit."""
    parser = argparse.ArgumentParser(prog="python -m tools.size", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if something is over its limit")
    checks = parser.parse_args(arguments).check
    rows = table()
    print(f"{'feature':<45} {'limit':>7} {'now':>7}")
    for name, limit, now in rows:
        print(f"{name:<45} {limit:>7,} {now:>7,}{'  over' if now > limit else ''}")
    return int(checks and any(now > limit for _, limit, now in rows))


if __name__ == "__main__":
    sys.exit(main())
