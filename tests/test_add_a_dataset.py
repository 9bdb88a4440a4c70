"""docs/add-a-dataset.md: its files are written into a copy of the repository, where everything knows the dataset."""

import re
import shutil
from pathlib import Path

import pytest

from tests.preparing import REPOSITORY as ROOT
from tests.running import python

PAGE = ROOT / "docs" / "add-a-dataset.md"
COPIED = ("recordzoo", "tests", "docs", "benchmarks", "examples", "README.md", "CHANGELOG.md", "Makefile", "mkdocs.yml")
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    for name in (*COPIED, "pyproject.toml", *(path.name for path in ROOT.glob(".mypy_cache"))):  # half a minute
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(ROOT / name, root / name)
    before = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    files = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))
    assert len(files) == 3
    assert before.isdisjoint(files)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    return root


def run(copy: Path, *command: object) -> str:
    """Run Python in the copy, whose package comes before the installed one."""
    result = python(*command, cwd=copy, timeout_s=600, PYTHONPATH=str(copy))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
def test_a_new_dataset_is_known_everywhere(copy: Path) -> None:
    run(copy, "docs/generate.py")
    run(copy, "docs/generate.py", "--check")
    assert "PebblesRecord" in (copy / "recordzoo" / "__init__.pyi").read_text()
    code = "from docs.parts import api, dataset_page, overview as o; print(api.classes(), o.page_table(), {})"
    built = run(copy, "-c", code.format("dataset_page.page('pebbles')"))
    assert "[`PebblesRecord`](../datasets/pebbles.md#recordzoo.PebblesRecord)" in built
    assert '<a href="pebbles/">Pebbles</a>' in built
    assert "\n# Pebbles\n" in built
    assert "| the defaults | `PIL image (RGB)` | `int` |" in built
    assert "A drawn sample of Pebbles" in built
    assert "pebbles" in run(copy, "-m", "recordzoo", "list")
    assert "https://example.org/pebbles" in run(copy, "-m", "recordzoo", "info", "pebbles")
    code = "import recordzoo; print('PebblesRecord' in recordzoo.__all__, recordzoo.PebblesRecord.__module__)"
    assert run(copy, "-c", code).split() == ["True", "recordzoo.datasets.pebbles"]


@pytest.mark.slow
def test_a_new_dataset_is_prepared(copy: Path, tmp_path: Path) -> None:
    code = f"import pathlib, tests.fakes.pebbles as made; made.pebbles.write_archive(pathlib.Path({str(tmp_path)!r}))"
    run(copy, "-c", code)
    run(copy, "-m", "recordzoo", "prepare", "pebbles", "--root", str(tmp_path), "--no-check-hash", "--workers", "1")
    assert "ok" in run(copy, "-m", "recordzoo", "verify", str(tmp_path / "pebbles.records"), "--full")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tests_know_it(copy: Path) -> None:
    tests = ["tests/test_contract.py", "tests/test_zoo.py", "tests/test_examples.py", "tests/test_rooms.py"]
    output = run(copy, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests, "-k", "Pebbles or pebbles")
    passed = re.search(r"(\d+) passed", output)
    assert passed is not None
    assert int(passed[1]) > 30
    for command in (["ruff", "check"], ["ruff", "format", "--check"]):
        run(copy, "-m", *command, *copy.glob("recordzoo/datasets/pebbles*.py"), "tests/fakes/pebbles.py")
    run(copy, "-m", "mypy")
