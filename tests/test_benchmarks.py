"""What the benchmark scripts import from recordzoo is there, also in the code that they run in other processes."""

import importlib
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
_IMPORT = re.compile(r"^\s*from (recordzoo[\w.]*) import (\w+(?:, \w+)*)", re.MULTILINE)
IMPORTS = sorted(
    {
        (path.relative_to(FOLDER).as_posix(), module, name)
        for path in FOLDER.rglob("*.py")
        if ".venv" not in path.as_posix()
        for module, names in _IMPORT.findall(path.read_text(encoding="utf-8"))
        for name in names.split(", ")
    }
)


@pytest.mark.parametrize(("script", "module", "name"), IMPORTS, ids=[" ".join(each) for each in IMPORTS])
def test_what_a_benchmark_imports_is_there(script: str, module: str, name: str) -> None:
    found = importlib.import_module(module)
    assert hasattr(found, name), f"benchmarks/{script} imports {name} from {module}, which has no such thing"
