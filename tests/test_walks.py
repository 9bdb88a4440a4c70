"""`tools/walks.py` counts the modules whose functions run, and none that is only imported."""

import subprocess
import sys

import pytest

from tests.preparing import REPOSITORY
from tools.walks import WALKS, measure

COUNTED = """
from tools.walks import executed
import recordzoo
print(*sorted(executed(recordzoo.list_datasets)))
"""


def test_a_module_that_is_only_imported_does_not_count() -> None:
    result = subprocess.run([sys.executable, "-c", COUNTED], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    found = result.stdout.split()
    assert {"catalogue/__init__.py", "zoo.py"} <= set(found)
    assert "records/kinds.py" not in found  # which the catalogue imports


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_each_walk_can_be_measured(name: str) -> None:
    assert len(measure(name)) > 5
