"""The guides from other packages' datasets run with those packages, as every page runs in tests/test_pages.py."""

from pathlib import Path

import pytest

from tests.test_docs import ROOT
from tests.test_pages import FRAMEWORKS, run_page


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_guide_runs_with_the_package_that_it_is_about(name: str, tmp_path: Path) -> None:
    run_page(ROOT / "docs" / name, tmp_path, {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path / "hf")})
