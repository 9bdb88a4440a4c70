"""Without numba or libjpeg-turbo one line says so, with the command: in real processes that cannot import them."""

import os
import sys
from pathlib import Path

import pytest

from recordzoo import CIFAR10Record, ImageFolderRecord
from recordzoo.images import turbojpeg
from recordzoo.loader import compiled as compiling
from recordzoo.loader import placement as explain
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
for _ in range(2):
    loader = RecordLoader(ImageFolderRecord({tree!r}, transform=RANDOM), 8)
    assert len(list(loader)) + len(list(loader)) == 12
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "environment", "times"),
    [
        pytest.param([], {}, 0, id="all there", marks=pytest.mark.needs("numba", "turbojpeg")),
        pytest.param(["numba"], {}, 1, id="no numba", marks=pytest.mark.needs("turbojpeg")),
        pytest.param(["numba"], {"LOCAL_RANK": "1"}, 0, id="not the first rank"),
    ],
)
def test_it_is_said_once_and_is_no_warning(
    tree: Path, hidden: list[str], environment: dict[str, str], times: int
) -> None:
    """Two loaders train for two epochs in a process of its own, in which a warning is an error."""
    ended = warm.run(TRAINS.format(hidden=hidden, tree=os.fspath(tree)), env={**os.environ, **environment})
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == times * (
        "RecordLoader is slower than it could be: numba is not installed. Install: pip install --upgrade numba\n"
    )


def test_numba_is_missing_or_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is with a NumPy that is too new for it, or when its first import was interrupted."""
    monkeypatch.setitem(sys.modules, "numba", None)
    assert compiling._check() == "numba is not installed"
    for name in [name for name in sys.modules if name.partition(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "numba.py").write_text("raise AttributeError('partially initialized module')")
    monkeypatch.syspath_prepend(tmp_path)
    assert compiling._check() == "numba cannot be imported (AttributeError: partially initialized module)"


def test_what_is_missing_depends_on_the_samples(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar10.build().write_tree(tmp_path)
    Record = type("Record", (CIFAR10Record,), cifar10.lists(cifar10.batches()))
    jpegs, raw = Source(ImageFolderRecord(tree, RANDOM)), Source(Record(tmp_path))
    monkeypatch.setattr(explain, "why_not_compiled", lambda: "numba is not installed")
    monkeypatch.setattr(explain, "library", lambda: None)
    monkeypatch.setattr(turbojpeg.importlib.util, "find_spec", lambda name: None)
    assert explain.missing(raw) == "numba is not installed. Install: pip install --upgrade numba"
    assert explain.missing(Source(Samples("small"))) == ""
    both = "numba is not installed and libjpeg-turbo 3 is not installed. Install: pip install --upgrade numba"
    assert explain.missing(jpegs) == f"{both} turbojpeg"
    # PyTurboJPEG's module has the name of the wheel's, which would hide it.
    monkeypatch.setattr(turbojpeg.importlib.util, "find_spec", lambda name: object())
    assert explain.missing(jpegs) == f"{both}, and the system's package of libjpeg-turbo 3"
