"""A user's own code in `RecordLoader`: the samples that the stock `DataLoader` gives, whatever state the code keeps."""

import contextvars
import functools
import gc
import itertools
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Subset, default_collate, get_worker_info
from torchvision import transforms as T
from torchvision.datasets import ImageFolder, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

from recordzoo import ImageFolderRecord, RecordLoader, VOCDetectionRecord
from recordzoo.errors import ArgumentError
from tests.batching import FIXED, UINT8, assert_same
from tests.fakes import voc
from tests.preparing import wait_for
from tests.running import python

# Any, here and below: of loaders, samples and batches of all kinds.

COUNT, SIZE = 60, 40
"""Number of samples, and bytes of each in a file."""


_opened: list[Any] = []


@pytest.fixture(autouse=True)
def _handles_are_closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def kept(handle: Any) -> Any:
    """Return an open handle, which is closed after the test."""
    _opened.append(handle)
    return handle


def value(index: int) -> bytes:
    return f"{index:{SIZE}d}".encode()


class Own:
    """A dataset of one's own, of `COUNT` samples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return COUNT


# Each of these is right in one process, one sample after the other.


class KeepsADraw(Own):
    """Keeps a random number on `self`, from one method to another."""

    def __getitem__(self, index: int) -> bool:
        return self.of_image(index) == self.of_mask(index)

    def of_image(self, index: int) -> float:
        self.angle = random.random()
        drawn = self.angle
        time.sleep(0.001)
        return drawn

    def of_mask(self, index: int) -> float:
        return self.angle


class OneHandle(Own):
    """Reads all samples with one file, which is opened in the constructor."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = kept((folder / "values").open("rb", buffering=0))

    def __getitem__(self, index: int) -> bool:
        self.file.seek(index * SIZE)
        time.sleep(0.001)
        return self.file.read(SIZE) == value(index)


class OpensAtFirst(Own):
    """Opens its file when it is first used: in each worker process, if nothing was read before."""

    file: Any = None

    def __getitem__(self, index: int) -> bool:
        if self.file is None:
            self.file = kept((self.folder / "values").open("rb", buffering=0))
        self.file.seek(index * SIZE)
        time.sleep(0.001)
        return bool(self.file.read(SIZE) == value(index))


class CountsItsCalls(Own):
    """Numbers its samples in the order in which they are made."""

    calls = 0

    def __getitem__(self, index: int) -> int:
        self.calls += 1
        return self.calls


class KnowsItsWorker(Own):
    """Says who makes a sample."""

    def __getitem__(self, index: int) -> int:
        info = get_worker_info()
        assert info is None or info.dataset is self
        return -1 if info is None else info.id


class DrawsInEachWorker(Own):
    """Makes a random generator when it is first used, with the worker's seed."""

    rng: Any = None

    def __getitem__(self, index: int) -> float:
        if self.rng is None:
            info = get_worker_info()
            self.rng = np.random.default_rng(None if info is None else info.seed)
        return float(self.rng.random())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own")
    (root / "values").write_bytes(b"".join(map(value, range(COUNT))))
    return root


LOADERS: dict[str, Callable[..., Any]] = {
    "DataLoader, 0": functools.partial(DataLoader, num_workers=0),
    "DataLoader, 2": functools.partial(DataLoader, num_workers=2),
    "RecordLoader": RecordLoader,
    "RecordLoader, 0": functools.partial(RecordLoader, num_workers=0),
    "RecordLoader, 2": functools.partial(RecordLoader, num_workers=2),
}
KINDS = (KeepsADraw, OneHandle, OpensAtFirst)


SHARED_POSITION = (OneHandle, "DataLoader, 2")  # its processes share a file's position, and read anything


@pytest.mark.parametrize(
    ("kind", "loader"), [both for both in itertools.product(KINDS, LOADERS) if both != SHARED_POSITION]
)
def test_a_dataset_that_keeps_something(folder: Path, kind: Any, loader: str) -> None:
    found = torch.cat(list(LOADERS[loader](kind(folder), 4)))
    assert found.tolist() == [True] * COUNT


class RaisesAtFive(Own):
    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise LookupError(f"no {index}")
        return index


def raise_for_five(samples: list[Any]) -> Any:
    if any(label == 5 for _, label in samples):
        raise LookupError("no 5")
    return [label for _, label in samples]


def taken(loader: Any) -> list[Any]:
    """Return the batches of an epoch, as lists, and the names of the errors between them."""
    batches, found = iter(loader), []
    while True:
        try:
            found.append(list(map(int, next(batches))))
        except StopIteration:
            return found
        except Exception as err:  # noqa: BLE001 - compared
            found.append(type(err).__name__)


def nine_images(folder: Path) -> ImageFolder:
    for number in range(9):
        (folder / str(number)).mkdir()
        Image.new("RGB", (20, 20)).save(folder / str(number) / "a.jpg")
    return ImageFolder(str(folder), T.ToTensor())


@pytest.mark.parametrize("loader", [*LOADERS, "RecordLoader, threads"])
def test_an_error_is_that_of_one_batch(folder: Path, loader: str) -> None:
    make = {**LOADERS, "RecordLoader, threads": functools.partial(RecordLoader, workers="threads")}[loader]
    expected = [[index, index + 1] for index in range(0, COUNT, 2)]
    assert taken(make(RaisesAtFive(folder), 2)) == [*expected[:2], "LookupError", *expected[3:]]


@pytest.mark.parametrize("loader", LOADERS)
def test_an_error_of_a_collate_function_is_that_of_one_batch(tmp_path: Path, loader: str) -> None:
    dataset = nine_images(tmp_path)
    found = taken(LOADERS[loader](dataset, 2, collate_fn=raise_for_five))
    assert found == [[0, 1], [2, 3], "LookupError", [6, 7], [8]]


@pytest.mark.parametrize(
    "method", ["fork", *(pytest.param(each, marks=pytest.mark.slow) for each in ("forkserver", "spawn"))]
)
def test_transforms_with_a_hook_that_only_this_process_has(tmp_path: Path, method: str) -> None:
    dataset = nine_images(tmp_path)
    dataset.transform = T.Compose([T.RandomResizedCrop(8), T.ToTensor()])
    hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, arguments: None)
    try:
        found = [len(labels) for _, labels in RecordLoader(dataset, 4, num_workers=1, multiprocessing_context=method)]
    finally:
        hook.remove()
    assert found == [4, 4, 1]


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("kind", [CountsItsCalls, KnowsItsWorker])
def test_the_values_of_the_stock_loader(folder: Path, kind: Any, num_workers: int) -> None:
    """No sample is made more than once or by somebody else."""
    found = list(RecordLoader(kind(folder), 4, num_workers=num_workers))
    assert_same(found, list(DataLoader(kind(folder), 4, num_workers=num_workers)))


def test_each_worker_has_a_seed_of_its_own(folder: Path) -> None:
    """And another one in each epoch."""
    loader = RecordLoader(DrawsInEachWorker(folder), 4, num_workers=2, seed=1)
    epochs = [torch.cat(list(loader)) for _ in range(3)]
    assert len(torch.cat(epochs).unique()) == 3 * COUNT
    loader.set_epoch(0)
    assert torch.equal(torch.cat(list(loader)), epochs[0])


# Functions of one's own, over images that the loader decodes


class Turn:
    """A transform of the image and one of the target, which share a random number; each knows who calls it."""

    def __init__(self) -> None:
        self.callers: list[tuple[int, int]] = []

    def of_image(self, image: Any) -> torch.Tensor:
        self.drawn = random.random()
        time.sleep(0.001)
        self.callers.append((os.getpid(), threading.get_ident()))
        return torch.tensor([self.drawn])

    def of_target(self, target: int) -> float:
        return self.drawn


@pytest.mark.parametrize("num_workers", [None, 0, 2])
def test_image_and_target_share_a_draw(tree: Path, num_workers: int | None) -> None:
    turn = Turn()
    dataset = ImageFolderRecord(tree, transform=turn.of_image, target_transform=turn.of_target)
    for drawn, again in RecordLoader(dataset, 8, num_workers=num_workers):
        assert torch.equal(drawn[:, 0], again.float())
    assert set(turn.callers) == (set() if num_workers != 0 else {(os.getpid(), threading.get_ident())})


class Bytes:
    """Reads an image and its label with one handle, as `HasImageBytes`."""

    def __init__(self, tree: Path, transform: Any) -> None:
        self.samples, self.transform = ImageFolder(tree).samples, transform

    def __len__(self) -> int:
        return len(self.samples)

    def image_bytes(self, index: int) -> bytes:
        path, self.label = self.samples[index]
        time.sleep(0.001)
        return Path(path).read_bytes()

    def target(self, index: int) -> int:
        return self.label


@pytest.mark.parametrize("transform", [FIXED, T.Compose([UINT8, T.Lambda(lambda image: image)])])
@pytest.mark.parametrize("num_workers", [None, 0, 2])
def test_image_bytes_and_target(tree: Path, transform: Any, num_workers: int | None) -> None:
    found = list(RecordLoader(Bytes(tree, transform), 8, num_workers=num_workers))
    assert_same(found, list(DataLoader(ImageFolder(tree, transform), 8)))


class Steps:
    """Functions of targets and batches that note each call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.threads: set[int] = set()

    def note(self, *call: Any) -> None:
        self.threads.add(threading.get_ident())
        time.sleep(0.001)
        self.calls.append(call)

    def of_target(self, target: int) -> int:
        self.note("target", target)
        return target

    def collate(self, samples: list[Any]) -> Any:
        self.note("collate", [target for _, target in samples])
        return default_collate(samples)

    def of_batch(self, images: torch.Tensor, targets: torch.Tensor) -> Any:
        self.note("batch", targets.tolist())
        return images, targets


def expected_calls(dataset: Any, steps: Steps) -> list[Any]:
    """Return the calls of the stock loader in this thread."""
    for images, targets in DataLoader(dataset, 8, collate_fn=steps.collate):
        steps.of_batch(images, targets)
    found = list(steps.calls)
    steps.calls.clear()
    steps.threads.clear()
    return found


@pytest.mark.parametrize("num_workers", [0, 1, 4])
def test_functions_of_batches_run_in_order_in_one_thread(tree: Path, num_workers: int) -> None:
    """Over compiled images they take no processes, and run ahead of the user unless `num_workers` is 0."""
    steps = Steps()
    dataset = ImageFolderRecord(tree, transform=FIXED, target_transform=steps.of_target)
    right = expected_calls(dataset, steps)
    options = {"collate_fn": steps.collate, "batch_transform": steps.of_batch}
    found = list(RecordLoader(dataset, 8, num_workers=num_workers, **options))
    assert steps.calls == right
    assert len(steps.threads) == 1
    assert (threading.get_ident() in steps.threads) is (num_workers == 0)
    assert_same([list(batch) for batch in found], list(DataLoader(ImageFolderRecord(tree, transform=FIXED), 8)))


SETTING = contextvars.ContextVar("SETTING", default=0)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_they_see_the_context_of_the_loop(tree: Path, num_workers: int) -> None:
    """As NumPy's `errstate` is."""
    seen = ImageFolderRecord(tree, transform=FIXED, target_transform=lambda _: SETTING.get())

    def look() -> set[int]:
        SETTING.set(7)
        return {target for _, targets in RecordLoader(seen, 8, num_workers=num_workers) for target in targets.tolist()}

    assert contextvars.copy_context().run(look) == {7}


@pytest.mark.parametrize("leave", ["close", "forget", "fail"])
def test_the_thread_of_these_functions_ends(tree: Path, leave: str) -> None:
    def collate(samples: list[Any]) -> int:
        if leave == "fail" and samples[0][1]:
            raise LookupError("mine")
        return len(samples)

    before = set(threading.enumerate())
    batches: Any = iter(RecordLoader(ImageFolderRecord(tree, transform=FIXED), 2, num_workers=2, collate_fn=collate))
    assert next(batches) == 2
    if leave == "close":
        batches.close()
    elif leave == "fail":
        with pytest.raises(LookupError, match="mine"):
            list(batches)
    del batches
    gc.collect()
    wait_for(lambda: set(threading.enumerate()) <= before, "the end of the threads")


# Who runs what, and when


class NotesItsCallers(Own):
    """Notes the process and thread of each call, in each copy of its own."""

    def __init__(self) -> None:
        self.callers: list[tuple[int, int]] = []

    def __getitem__(self, index: int) -> int:
        self.callers.append((os.getpid(), threading.get_ident()))
        return os.getpid()

    def image(self, image: Any) -> torch.Tensor:
        return torch.tensor(self[0])

    def batch(self, samples: list[Any]) -> int:
        return self[0]


HERE = os.getpid()


def test_nothing_of_the_users_runs_before_the_workers_are_forked(tree: Path) -> None:
    own = NotesItsCallers()
    of_image = NotesItsCallers()
    for dataset, note in (
        (own, own),
        (ImageFolderRecord(tree, transform=of_image.image), of_image),
        (ImageFolderRecord(tree, transform=T.Compose([UINT8, of_image.image, T.Lambda(lambda each: each)])), of_image),
        (Subset(own, range(7)), own),
    ):
        loader = RecordLoader(dataset, 8, num_workers=2, collate_fn=note.batch)
        assert "workers: processes: " in str(loader)
        assert os.getpid() not in set(loader)
        assert note.callers == []


def test_without_workers_a_batch_is_made_when_it_is_taken(tree: Path) -> None:
    """In the thread that takes it, so that a debugger stops there."""
    own = NotesItsCallers()
    dataset = ImageFolderRecord(tree, transform=T.Compose([UINT8, own.image]))
    loader = RecordLoader(dataset, 8, num_workers=0, collate_fn=own.batch)
    batches = iter(loader)
    assert own.callers == []
    for count in (1, 2):
        next(batches)
        assert own.callers == [(os.getpid(), threading.get_ident())] * 9 * count
    assert loader.num_workers == 0


def test_without_workers_a_generator_decides_the_random_numbers(tree: Path) -> None:
    """Those of torchvision's transforms that are not compiled, too."""
    for transform in (
        T.Compose([UINT8, T.Lambda(lambda image: torch.rand(3))]),
        T.Compose([T.RandomPerspective(), FIXED]),
    ):
        loader = RecordLoader(ImageFolderRecord(tree, transform=transform), 8, num_workers=0)
        torch.manual_seed(1)
        random.seed(1)
        first = list(loader)
        torch.manual_seed(1)
        random.seed(1)
        assert_same(list(loader), first)


class Turned(T.RandomRotation):
    """A subclass may do anything."""


def patched() -> T.RandomRotation:
    transform = T.RandomRotation(5)
    transform.forward = lambda image: image
    return transform


THREADS = "workers: threads: what is not fused is torchvision's own code"


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (T.Grayscale(), THREADS),
        (T.RandomApply(torch.nn.ModuleList([T.ElasticTransform()])), THREADS),
        (v2.RandomChoice([v2.RandomZoomOut(), v2.RandomIoUCrop()]), THREADS),
        (T.Lambda(T.functional.hflip), THREADS),
        (T.Lambda(lambda image: image), "workers: processes: Lambda is your own code"),
        (T.RandomOrder([T.Compose([T.RandomApply([Turned(3)])])]), "workers: processes: RandomOrder"),
        (patched(), "workers: processes: RandomRotation"),
        (torch.nn.Dropout(), "workers: processes: Dropout"),
    ],
)
def test_only_torchvisions_own_transforms_run_in_threads(tree: Path, transform: Any, said: str) -> None:
    chain = T.Compose([T.Resize((20, 20)), transform, T.ToTensor()])
    loader = RecordLoader(ImageFolderRecord(tree, transform=chain), 8)
    assert said in loader.explain().splitlines()[-1]
    assert "workers: threads: as asked" in str(RecordLoader(loader.dataset, 8, workers="threads"))
    assert "workers: the calling thread: num_workers=0" in str(RecordLoader(loader.dataset, 8, num_workers=0))


def test_boxes_with_a_function_of_ones_own(tmp_path: Path) -> None:
    """A known transform of boxes that calls one."""
    chain = v2.Compose([v2.ToImage(), v2.SanitizeBoundingBoxes(labels_getter=lambda target: target[1]["labels"])])
    records = VOCDetectionRecord(voc.build().write_tree(tmp_path), transforms=chain)
    loader = RecordLoader(wrap_dataset_for_transforms_v2(records), 2)
    assert "workers: processes: SanitizeBoundingBoxes" in str(loader)


def test_a_class_that_is_patched_is_not_torchvisions(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ImageFolderRecord(tree, transform=T.Compose([UINT8, T.RandomRotation(3)]))
    assert THREADS in str(RecordLoader(dataset, 8))
    monkeypatch.setattr(T.RandomRotation, "get_params", staticmethod(lambda degrees: degrees[0]))
    assert "workers: processes: ImageFolderRecord" in str(RecordLoader(dataset, 8))


# Where processes cannot be started


def notes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if text.startswith("RecordLoader runs your code in this process")]


@pytest.mark.parametrize("context", ["forkserver", "spawn"])
def test_what_cannot_be_pickled_runs_in_the_calling_thread(
    tree: Path, context: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line of the log says so, and names it."""
    own = NotesItsCallers()
    dataset = ImageFolderRecord(tree, transform=lambda image: own.image(context))
    loader = RecordLoader(dataset, 8, multiprocessing_context=context)
    for _ in range(2):
        found = torch.cat([pids for pids, _ in loader])
        assert set(found.tolist()) == {os.getpid()}
    assert len(own.callers) == 2 * len(dataset)
    (said,) = notes(caplog)
    assert "worker processes cannot be used: " in said
    assert "<lambda>" in said
    assert 'Pass num_workers=0 to run it in this process, or multiprocessing_context="fork"' in said
    assert "workers: the calling thread: worker processes cannot be used: " in str(loader)


@pytest.mark.parametrize(
    ("of_dataset", "options"),
    [
        ({"transform": lambda image: image}, {}),
        ({"transform": np.asarray}, {"collate_fn": lambda samples: samples}),
        ({"transform": np.asarray}, {"worker_init_fn": lambda number: None}),
    ],
)
def test_processes_that_were_asked_for_are_an_error(tree: Path, of_dataset: Any, options: Any) -> None:
    dataset = ImageFolderRecord(tree, **of_dataset)
    for asked, said in (({"num_workers": 2}, "num_workers=2"), ({"workers": "processes"}, "workers='processes'")):
        loader = RecordLoader(dataset, 8, multiprocessing_context="forkserver", **asked, **options)
        with pytest.raises(ArgumentError) as caught:
            next(iter(loader))
        assert str(caught.value).startswith(f"{said}: worker processes cannot be used: ")
        assert "<lambda>" in str(caught.value)
        assert 'multiprocessing_context="fork"' in str(caught.value)


def test_in_a_daemon(folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may start no processes."""
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert torch.cat(list(RecordLoader(OpensAtFirst(folder), 4))).tolist() == [True] * COUNT
    (said,) = notes(caplog)
    assert "daemonic processes are not allowed to have children" in said
    with pytest.raises(ArgumentError, match=r"num_workers=2: worker processes cannot be used: .*daemonic processes"):
        next(iter(RecordLoader(OpensAtFirst(folder), 4, num_workers=2)))


class OnTheGPU(Own):
    """Raises torch's error, as every process does that was forked after CUDA was used."""

    def __getitem__(self, index: int) -> int:
        if os.getpid() != HERE and index >= 8:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you ..."
            )
        return index


def test_cuda_in_a_forked_process(caplog: pytest.LogCaptureFixture) -> None:
    """It is the worker that finds out: the calling thread goes on where it failed."""
    for persistent in (False, True):
        loader = RecordLoader(OnTheGPU(Path()), 4, shuffle=False, persistent_workers=persistent)
        state = [(batch.tolist(), loader.state_dict()["epoch"]) for batch in loader]
        assert state == [(list(range(start, start + 4)), 0) for start in range(0, COUNT, 4)]
        assert torch.cat(list(loader)).tolist() == list(range(COUNT))
        assert len(notes(caplog)) == 1
        caplog.clear()
    asked = iter(RecordLoader(OnTheGPU(Path()), 4, num_workers=1))
    assert [next(asked).tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    with pytest.raises(ArgumentError, match=r"num_workers=1: .*Cannot re-initialize CUDA.*Pass num_workers=0"):
        next(asked)


class FromMain(Own):
    """A class that a worker process does not find, as one of a notebook."""

    def __getitem__(self, index: int) -> int:
        return index

    def __reduce__(self) -> Any:
        return _not_in_a_worker, ()


def _not_in_a_worker() -> Any:
    if get_worker_info() is not None:
        raise AttributeError("Can't get attribute 'FromMain' on <module '__main__'>")
    return FromMain(Path())


@pytest.mark.slow
def test_a_class_that_workers_do_not_find(caplog: pytest.LogCaptureFixture) -> None:
    options = {"multiprocessing_context": "forkserver", "shuffle": False}
    assert torch.cat(list(RecordLoader(FromMain(Path()), 4, **options))).tolist() == list(range(COUNT))
    (said,) = notes(caplog)
    assert "AttributeError: Can't get attribute 'FromMain'" in said
    with pytest.raises(ArgumentError, match="Can't get attribute 'FromMain'"):
        list(RecordLoader(FromMain(Path()), 4, num_workers=1, **options))


FORKSERVER = """
import multiprocessing, random, sys
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler, mix
from tests.batching import UINT8, assert_same

class ClassBatches:
    def __init__(self, labels):
        self.labels = labels
    def __iter__(self):
        for label in random.sample(range(5), 4):
            yield random.sample([index for index, each in enumerate(self.labels) if each == label], 2)

def own(image):
    return UINT8(image)

def drawn(image):
    return torch.rand(3) + random.random()

def epoch(loader):
    random.seed(1)
    return list(loader)

if __name__ == "__main__":
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["recordzoo.loader.loader"])  # else each worker imports torch
    files, records = ImageFolder(sys.argv[1], own), ImageFolderRecord(sys.argv[1], transform=own)
    mixed = mix([records, files], weights=[2, 1])
    for dataset, options in (
        (files, lambda: {"batch_size": 8}),
        (records, lambda: {"batch_sampler": ClassBatches(records.targets)}),
        (mixed, lambda: {"batch_size": 8, "sampler": RecordSampler(mixed, seed=1)}),
    ):
        loader = RecordLoader(dataset, num_workers=1, **options())
        assert "workers: processes: own is your own code" in str(loader), str(loader)
        assert_same(epoch(loader), epoch(DataLoader(dataset, num_workers=0, **options())))
    noisy = ImageFolderRecord(sys.argv[1], transform=drawn)
    here, there = (RecordLoader(noisy, 8, num_workers=n, deterministic=True, seed=1) for n in (0, 1))
    assert_same(list(here), list(there))
    files.transform = lambda image: UINT8(image)
    for kind, options in ((DataLoader, {"num_workers": 1}), (RecordLoader, {"num_workers": 1}), (RecordLoader, {})):
        try:
            print(len(list(kind(files, 8, **options))))
        except Exception as err:
            print(type(err).__name__, err)
"""


@pytest.mark.slow
def test_a_program_whose_processes_are_not_forked(tree: Path, tmp_path: Path) -> None:
    """As all programs on Linux from Python 3.14 on. A lambda is an error where processes were asked for."""
    (tmp_path / "script.py").write_text(FORKSERVER)
    done = python(tmp_path / "script.py", tree)
    assert done.returncode == 0, done.stderr
    stock, asked, batches = done.stdout.splitlines()
    assert "pickle" in stock
    assert asked.startswith("ArgumentError num_workers=1: worker processes cannot be used: ")
    assert batches == "6"
    assert "RecordLoader runs your code in this process" in done.stderr


UNGUARDED = """
from recordzoo import RecordLoader
class Own:
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return index
print("begun", flush=True)
print(list(RecordLoader(Own(), multiprocessing_context="spawn")))
"""


@pytest.mark.slow
def test_a_script_without_a_guard_does_not_run_in_its_workers(tmp_path: Path) -> None:
    """As in the stock loader: multiprocessing imports the script in each process, which must not iterate itself."""
    (tmp_path / "script.py").write_text(UNGUARDED)
    ended = python(tmp_path / "script.py", LOCAL_WORLD_SIZE="999")  # one worker
    assert ended.returncode == 1
    assert "if __name__ == '__main__':" in ended.stderr
    assert "[" not in ended.stdout
