"""Without the extra `fast` one line says so, with the command; real processes in which it cannot be imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recordzoo import CIFAR10Record, ImageFolderRecord
from recordzoo.batches import missing
from recordzoo.batches.compiled import DISABLED
from recordzoo.batches.source import Source
from tests.batching import RANDOM, make_tree
from tests.fakes import cifar10
from tests.fakes.samples import Samples
from tests.preparing import REPOSITORY

TRAINS = """
import sys
sys.modules.update(dict.fromkeys({hidden}))
import ctypes.util
ctypes.util.find_library = lambda name: None
from recordzoo import ImageFolderRecord, RecordLoader
from tests.batching import RANDOM
{before}
for _ in range(2):
    loader = RecordLoader(ImageFolderRecord({tree!r}, transform=RANDOM), 8)
    assert len(list(loader)) + len(list(loader)) == 12
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("tree"))


def said(tree: Path, hidden: list[str], before: str = "", **environment: str) -> str:
    """Train two loaders for two epochs in a process of its own, in which a warning is an error."""
    code = TRAINS.format(hidden=hidden, before=before, tree=os.fspath(tree))
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@pytest.mark.needs("turbojpeg")
def test_it_is_said_once_and_is_no_warning(tree: Path) -> None:
    assert said(tree, ["numba"]) == (
        "RecordLoader runs at about half its speed: numba is not installed. Install: pip install 'recordzoo[fast]'\n"
    )
    assert said(tree, ["numba"], LOCAL_RANK="0").count("half its speed") == 1


@pytest.mark.parametrize(
    ("hidden", "environment"),
    [
        pytest.param([], {}, marks=pytest.mark.needs("numba", "turbojpeg")),
        (["numba"], {"LOCAL_RANK": "1"}),
        pytest.param([], {"NUMBA_DISABLE_JIT": "1"}, marks=pytest.mark.needs("numba", "turbojpeg")),
    ],
    ids=["all there", "not the first rank", "numba is switched off"],
)
def test_it_is_not_said(tree: Path, hidden: list[str], environment: dict[str, str]) -> None:
    assert said(tree, hidden, **environment) == ""


def test_logging_may_be_configured(tree: Path) -> None:
    before = "import logging; logging.basicConfig(level=logging.ERROR)"
    assert said(tree, ["numba"], before) == ""


def test_what_is_missing_depends_on_the_samples(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = cifar10.build()
    fake.write_tree(tmp_path)

    class Record(CIFAR10Record):
        train_list, test_list, meta = (fake.lists[name] for name in ("train_list", "test_list", "meta"))

    jpegs, raw = Source(ImageFolderRecord(tree, RANDOM)), Source(Record(tmp_path))
    others = Source(Samples("small"))
    monkeypatch.setattr(missing, "library", lambda: None)
    monkeypatch.setattr(missing, "why_not_compiled", lambda: "")
    monkeypatch.setattr(missing.platform, "machine", lambda: "riscv64")
    assert missing.missing(jpegs) == (
        "libjpeg-turbo 3 is not installed. Install: the system's package of libjpeg-turbo 3"
    )
    assert missing.missing(raw) == missing.missing(others) == ""
    monkeypatch.setattr(missing, "why_not_compiled", lambda: "numba is not installed")
    assert missing.missing(raw) == "numba is not installed. Install: pip install 'recordzoo[fast]'"
    assert missing.missing(jpegs) == (
        "numba is not installed and libjpeg-turbo 3 is not installed. "
        "Install: pip install 'recordzoo[fast]', and the system's package of libjpeg-turbo 3"
    )
    assert missing.missing(others) == ""
    monkeypatch.setattr(missing, "why_not_compiled", lambda: DISABLED)
    assert missing.missing(raw) == ""
