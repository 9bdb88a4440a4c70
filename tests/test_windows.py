"""The scenarios of `tests.on_windows`, with what POSIX alone has switched off, and without; on Windows twice."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests import on_windows
from tests.preparing import REPOSITORY
from tests.windows import FOLDER

# Two interpreters import torch, one of them twice: once for all tests.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("windows")]

Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What they find on the system at hand."""
    found = on_windows.run(tmp_path_factory.mktemp("here"))
    return json.loads(json.dumps(found))


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What they find on "Windows", in a process of its own."""
    place = tmp_path_factory.mktemp("there")
    site = [] if sys.platform == "win32" else [str(REPOSITORY / "tests" / "windows_site")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*site, str(REPOSITORY)]), FOLDER: str(place)}
    words = [sys.executable, "-X", "warn_default_encoding", "-m", "tests.on_windows", str(place)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=600)
    return json.loads(done.stdout.splitlines()[-1])


def test_a_tree_gives_the_same_bytes_in_one_process_and_in_two(here: Found, there: Found) -> None:
    assert there["tree_here"] == here["tree_here"]
    assert there["tree_here"]["one"] == there["tree_here"]["two"]
    assert len([name for name in there["tree_here"]["one"] if name.endswith(".lmdb")]) > 5
    assert there["tree_here"]["left"] == ["simple", "simple.records"]


def test_a_download_goes_on_and_is_deleted_afterwards(here: Found, there: Found) -> None:
    assert there["archive_fetched"] == here["archive_fetched"]
    assert there["archive_fetched"]["ranges"] == ["bytes=1000-"]
    assert there["archive_fetched"]["left"] == ["simple.records"]


def test_a_killed_preparation_goes_on(here: Found, there: Found) -> None:
    assert there["killed"] == here["killed"]
    assert len(there["killed"]["built"]) == 2
    assert there["killed"]["kept"]
    assert there["killed"]["made"] == there["tree_here"]["one"]
    assert there["killed"]["left"] == ["simple", "simple.records"]


def test_samples_batches_and_the_check_are_the_same(here: Found, there: Found) -> None:
    assert there["images"] == here["images"]
    assert there["images"]["problems"] == []
    assert there["images"]["checked"]["records"] == len(there["images"]["names"]) > 50


def test_a_set_that_is_open_is_not_replaced(here: Found, there: Found) -> None:
    assert there["in_use"]["made"] == here["in_use"]["made"]
    assert there["in_use"]["left"] == here["in_use"]["left"] == ["simple", "simple.records"]
    assert "simple.records is in use" in there["in_use"]["refused"]
    assert "close the datasets and programs that use it" in there["in_use"]["refused"]
    assert not here["in_use"]["refused"] or sys.platform == "win32"


def test_two_at_once_make_one_set(here: Found, there: Found) -> None:
    assert there["two_at_once"] == here["two_at_once"]
    assert there["two_at_once"]["same"]
    assert there["two_at_once"]["left"] == ["simple", "simple.records"]
