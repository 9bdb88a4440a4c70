"""Arguments as people give them: roots, indices, transforms, loaders, beside torchvision's ImageFolder."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import pil_to_tensor

from recordzoo import CUB200Record, ImageFolderRecord, RecordReader
from recordzoo.errors import NotPreparedError, RecordZooError
from recordzoo.preparing.preparation import ensure
from tests.fakes import cub200, simple
from tests.fakes.pictures import jpeg, picture
from tests.fakes.server import FileServer
from tests.fakes.simple import SimpleRecipe

REPOSITORY = Path(__file__).parent.parent
Both = tuple[ImageFolder, ImageFolderRecord]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree") / "photos"
    rng = np.random.default_rng(0)
    for number in range(7):
        path = root / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(picture(rng, 12, 10)))
    return root


@pytest.fixture(scope="module")
def both(tree: Path) -> Both:
    return ImageFolder(tree, transform=pil_to_tensor), ImageFolderRecord(tree, transform=pil_to_tensor)


# Any: whatever a call returns or raises.
def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as err:  # noqa: BLE001 - compared with torchvision's
        return type(err), str(err)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def test_to_download_twice_is_to_do_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: Any) -> None:
    archive = simple.write(tmp_path / "server", "stream")
    with FileServer(tmp_path / "server") as server:
        recipe = SimpleRecipe("stream", (simple.remote(archive, server.url),))
        first = ensure(recipe, tmp_path / "root", download=True, workers=1)
        before, asked = {path: path.stat() for path in (tmp_path / "root").rglob("*")}, len(server.log)
        capfd.readouterr()
        caplog.clear()
        for _ in range(3):
            assert ensure(recipe, tmp_path / "root", download=True, workers=1) == first
        assert len(server.log) == asked
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "root").rglob("*")} == {
        path: status.st_mtime_ns for path, status in before.items()
    }
    assert (capfd.readouterr(), caplog.messages) == (("", ""), [])


@pytest.mark.parametrize("folder", ["plain", "with space", "häß", "日本", "-dash", "a*b[c]"])
def test_spellings_of_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    root = tmp_path / folder
    cub200.build(2, 2).write_tree(root)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings = (root, str(root), folder, f"./{folder}/", f"~/{folder}", Path("~") / folder, f"{folder}/../{folder}")
    digests = {RecordReader(CUB200Record(spelling).records_path).digest for spelling in spellings}
    assert len(digests) == 1
    assert len(list(root.glob("*.records"))) == 1
    assert sorted(os.listdir(tmp_path)) == [folder]


def test_roots_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
    for root in ("missing", "./missing", "file", "file/below"):
        whole = str(tmp_path / root.removeprefix("./"))
        for download in (False, True):
            with pytest.raises(RecordZooError) as caught:
                CUB200Record(root, download=download)
            assert whole in str(caught.value)
            if not download:
                assert isinstance(caught.value, NotPreparedError | FileNotFoundError)
        assert same(*(outcome(lambda kind=kind: kind(root))[1] for kind in (ImageFolder, ImageFolderRecord)))  # type: ignore[misc]  # noqa: B023
    assert (tmp_path / "file").read_bytes() == b"x"


INDICES = (
    st.integers(-20, 20)
    | st.integers(-(1 << 62), 1 << 62)
    | st.sampled_from([np.int8, np.uint8, np.int64, np.uint64]).flatmap(lambda kind: st.integers(0, 9).map(kind))
    | st.booleans()
    | st.floats()
    | st.slices(10)
    | st.none()
    | st.text(max_size=2)
    | st.integers(-9, 9).map(torch.tensor)
    | st.lists(st.integers(0, 6), max_size=2)
    | st.integers(-9, 9).map(np.array)
)


@given(index=INDICES)
def test_any_index_is_as_in_torchvision(both: Both, index: Any) -> None:
    theirs, ours = both
    assert same(outcome(lambda: theirs[index]), outcome(lambda: ours[index]))
    for name in ("samples", "imgs", "targets"):
        a, b = (outcome(lambda ds=ds: getattr(ds, name)[index]) for ds in both)  # type: ignore[misc]  # noqa: B023
        assert same(a, b), (name, a, b)


class Wrong(Exception):
    """Of a user's own."""


def fail_for_odd(label: int) -> int:
    if label == 1:
        raise Wrong("odd")
    return label


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_a_transform_comes_as_it_is(tree: Path, workers: int) -> None:
    dataset = ImageFolderRecord(tree, transform=pil_to_tensor, target_transform=fail_for_odd)
    with pytest.raises(Wrong, match=r"\Aodd\Z") as alone:
        dataset[4]
    assert not hasattr(alone.value, "__notes__")
    with pytest.raises(Wrong, match="odd") as caught:
        list(DataLoader(dataset, batch_size=3, num_workers=workers))
    # torch makes a worker's error anew, with the worker's traceback as its text.
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert f"while taking sample 4 of {tree}.records" in told


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # that is what is tried
@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")  # where there is no accelerator
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 5, "persistent_workers": True},
        {"num_workers": 1, "pin_memory": True, "prefetch_factor": 4},
        {"pin_memory": True, "drop_last": True},
        {"batch_size": None},
    ],
    ids=repr,
)
def test_a_loader_gives_what_it_gives_of_torchvision(both: Both, options: dict[str, Any]) -> None:
    theirs, ours = (DataLoader(dataset, **{"batch_size": 2, **options}) for dataset in both)
    for _ in range(2):
        assert same(list(theirs), list(ours))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_of_nothing(tmp_path: Path, workers: int) -> None:
    (tmp_path / "photos" / "a").mkdir(parents=True)
    for kind in (ImageFolder, ImageFolderRecord):
        dataset = kind(tmp_path / "photos", allow_empty=True)
        assert len(dataset) == 0
        assert list(DataLoader(dataset, num_workers=workers)) == []
        assert outcome(lambda dataset=dataset: dataset[0]) == (IndexError, "list index out of range")  # type: ignore[misc]
