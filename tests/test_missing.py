"""Without numba or libjpeg-turbo one line says so, with the command: in real processes that cannot import them."""

import os
import platform
import sys
from pathlib import Path

import pytest

from recordzoo import CIFAR10Record, ImageFolderRecord
from recordzoo.base import settings as wheels
from recordzoo.images import turbojpeg
from recordzoo.loader import compiled as compiling
from recordzoo.loader import placement as explain
from recordzoo.loader.compiled import DISABLED
from recordzoo.loader.source import Source
from tests import warm
from tests.batching import RANDOM
from tests.fakes import cifar as cifar10
from tests.fakes.samples import Samples

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


def said(tree: Path, hidden: list[str], before: str = "", **environment: str) -> str:
    """Train two loaders for two epochs in a process of its own, in which a warning is an error."""
    code = TRAINS.format(hidden=hidden, before=before, tree=os.fspath(tree))
    ended = warm.run(code, env={**os.environ, **environment})
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


@pytest.mark.needs("turbojpeg")
@pytest.mark.slow
def test_it_is_said_once_and_is_no_warning(tree: Path) -> None:
    assert said(tree, ["numba"]) == (
        "RecordLoader is slower than it could be: numba is not installed. Install: pip install --upgrade numba\n"
    )
    assert said(tree, ["numba"], LOCAL_RANK="0").count("slower than") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "environment"),
    [
        pytest.param([], {}, id="all there", marks=pytest.mark.needs("numba", "turbojpeg")),
        pytest.param(["numba"], {"LOCAL_RANK": "1"}, id="not the first rank"),
        pytest.param(
            [], {"NUMBA_DISABLE_JIT": "1"}, id="numba is switched off", marks=pytest.mark.needs("numba", "turbojpeg")
        ),
    ],
)
def test_it_is_not_said(tree: Path, hidden: list[str], environment: dict[str, str]) -> None:
    assert said(tree, hidden, **environment) == ""


def test_numba_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert compiling._check() == "numba is not installed"


def test_numba_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is with a NumPy that is too new for it, or when its first import was interrupted."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "numba.py").write_text("raise AttributeError('partially initialized module')")
    monkeypatch.syspath_prepend(tmp_path)
    assert compiling._check() == "numba cannot be imported (AttributeError: partially initialized module)"


@pytest.mark.slow
def test_logging_may_be_configured(tree: Path) -> None:
    before = "import logging; logging.basicConfig(level=logging.ERROR)"
    assert said(tree, ["numba"], before) == ""


def test_what_is_missing_depends_on_the_samples(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar10.build().write_tree(tmp_path)
    Record = type("Record", (CIFAR10Record,), cifar10.lists(cifar10.batches()))

    jpegs, raw = Source(ImageFolderRecord(tree, RANDOM)), Source(Record(tmp_path))
    others = Source(Samples("small"))
    monkeypatch.setattr(explain, "why_not_compiled", lambda: "")
    monkeypatch.setattr(explain, "library", lambda: None)
    monkeypatch.setattr(turbojpeg.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert explain.missing(jpegs) == (
        "libjpeg-turbo 3 is not installed. Install: the system's package of libjpeg-turbo 3"
    )
    assert explain.missing(raw) == explain.missing(others) == ""
    monkeypatch.setattr(explain, "why_not_compiled", lambda: "numba is not installed")
    assert explain.missing(raw) == (
        "numba is not installed. "
        "Install: numba from conda-forge or its source (it has no wheel for this Python and machine)"
    )
    monkeypatch.setattr(wheels, "has_wheel", lambda *asked: True)
    assert explain.missing(raw) == "numba is not installed. Install: pip install --upgrade numba"
    both = "numba is not installed and libjpeg-turbo 3 is not installed. Install: pip install --upgrade numba"
    assert explain.missing(jpegs) == f"{both} turbojpeg"
    # PyTurboJPEG's module has the name of the wheel's, which would hide it.
    monkeypatch.setattr(turbojpeg.importlib.util, "find_spec", lambda name: object())
    assert explain.missing(jpegs) == f"{both}, and the system's package of libjpeg-turbo 3"
    assert explain.missing(others) == ""
    monkeypatch.setattr(explain, "why_not_compiled", lambda: DISABLED)
    assert explain.missing(raw) == ""
