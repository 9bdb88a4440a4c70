"""`RecordLoader` in worker processes: the same batches as in threads, the same errors, and nothing left behind."""

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, _utils, get_worker_info
from torchvision import transforms as v1

from recordzoo import ImageFolderRecord, MultiView, RecordLoader, RecordReader, RecordSampler
from recordzoo.errors import ArgumentError, ImageError
from tests.batching import FIXED, RANDOM, UINT8, assert_same
from tests.fakes.folder import bad_image, write_tree
from tests.forking import start
from tests.preparing import wait_for
from tests.running import REPOSITORY, exit_code

# Any, here and below: of loaders, datasets and batches of all kinds.

CHAINS = {
    "known at both ends": v1.Compose([v1.RandomResizedCrop(24), v1.Lambda(lambda image: image), FIXED]),
    "known at the beginning": v1.Compose([RANDOM, v1.Lambda(lambda image: image.float().mean((1, 2)))]),
    "not known": np.asarray,
    "all known": FIXED,
    "several views": MultiView([RANDOM, FIXED]),
}


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Any:
    others = set(multiprocessing.active_children())  # of earlier tests, until the garbage collector takes their loaders
    yield

    def are_gone() -> bool:
        gc.collect()  # not once: an exception's frames may keep an iterator that the first collection only closes
        return not set(multiprocessing.active_children()) - others

    wait_for(are_gone, "the end of the worker processes")


def loader(dataset: Any, *arguments: Any, **options: Any) -> RecordLoader:
    return RecordLoader(dataset, *arguments, **{"num_workers": 2, "workers": "processes", **options})


def plain(samples: list[Any]) -> list[Any]:
    return samples


def pid(samples: list[Any]) -> int:
    return os.getpid()


@pytest.mark.parametrize("name", CHAINS)
def test_the_batches_of_threads(tree: Path, name: str) -> None:
    """Random numbers of fused transforms depend on the sample, and not on the process."""
    dataset = ImageFolderRecord(tree, transform=CHAINS[name])
    everything = ConcatDataset([dataset, Subset(dataset, [3, 4])])
    options = {"seed": 3, "collate_fn": plain} if name == "not known" else {"seed": 3}
    found = list(loader(everything, 8, True, **options))
    assert_same(found, list(loader(everything, 8, True, workers="threads", **options)))
    assert len(found) == 6


def test_persistent_workers_stay(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=UINT8)
    kept = loader(dataset, 8, collate_fn=pid, persistent_workers=True)
    first = set(kept)
    next(iter(kept))  # an epoch that is left
    assert set(kept) == first
    assert len(first) == 2
    assert os.getpid() not in first
    fresh = loader(dataset, 8, collate_fn=pid)
    assert set(fresh).isdisjoint(fresh)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_leaves_persistent_workers_to_its_parent(tree: Path) -> None:
    """It iterates with workers of its own, and forgets those of its parent, which goes on with them."""
    dataset = ImageFolderRecord(tree, transform=UINT8)
    kept = loader(dataset, 8, collate_fn=pid, persistent_workers=True, timeout=100)
    first = set(kept)
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if len(set(kept) - first) == 2 else 2
            del kept
            gc.collect()
        os._exit(code)
    assert exit_code(child) == 0
    assert set(kept) == first


class Training:
    """Has the iterator of a loader that has one of its methods, as trainers often do."""

    batches: Any = None

    def collate(self, samples: list[Any]) -> list[Any]:
        return samples


@pytest.mark.parametrize("leave", ["close", "forget", "forget in a cycle", "forget with own code", "all"])
def test_processes_end_with_the_epoch(tree: Path, leave: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once. The garbage collector may take the queues by which torch tells them to end: they would wait."""
    for module in (_utils, _utils.worker):
        monkeypatch.setattr(module, "MP_STATUS_CHECK_INTERVAL", 60.0)  # for so long, and torch for them; else 5 s
    training = Training()
    own = {"collate_fn": training.collate} if leave == "forget with own code" else {}
    iterator: Any = iter(loader(ImageFolderRecord(tree, transform=UINT8), 4, **own))
    next(iterator)
    assert len(multiprocessing.active_children()) == 2
    training.batches = iterator
    if leave == "close":
        iterator.close()
        assert list(iterator) == []
    elif leave == "all":
        assert len(list(iterator)) == 10
    elif leave == "forget in a cycle":
        cycle = [iterator]
        cycle.append(cycle)
        del cycle
    start = time.monotonic()
    del iterator, training, own
    gc.collect()
    assert not multiprocessing.active_children()
    assert time.monotonic() - start < 30


def test_an_image_that_cannot_be_decoded(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/0.jpg": bad_image(), **{f"a/{number}.jpg": bad_image() for number in range(1, 3)}})
    dataset = ImageFolderRecord(tmp_path, transform=UINT8)
    errors = []
    for workers in ("threads", "processes"):
        with pytest.raises(ImageError, match=r"sample 0 \(a/0\.jpg\)") as caught:
            list(loader(dataset, 3, workers=workers, num_workers=1))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert any(note.startswith("In worker process 0:") for note in caught.value.__notes__)


def fail(image: Any) -> None:
    raise LookupError("mine")


def test_an_error_of_the_users_function(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=v1.Compose([UINT8, fail]))
    with pytest.raises(LookupError, match="mine") as caught:
        list(loader(dataset, 4))
    assert caught.value.__notes__[0].startswith("while transforming sample 0 (")


@pytest.mark.slow
def test_timeout(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=lambda image: time.sleep(60))
    with pytest.raises(TimeoutError, match=r"timeout=0\.3 seconds"):
        list(loader(dataset, 4, timeout=0.3, num_workers=1))


def test_after_a_killed_worker_there_are_new_ones(tree: Path, tmp_path: Path) -> None:
    def fail_once(image: Any) -> torch.Tensor:
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(1)

    again = loader(ImageFolderRecord(tree, transform=fail_once), 8, persistent_workers=True)
    with pytest.raises(RuntimeError, match=r"exited unexpectedly|killed by signal"):
        list(again)
    assert len(list(again)) == 6


def test_a_changed_transform_reaches_persistent_workers(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=UINT8)
    kept = loader(dataset, 8, persistent_workers=True)
    assert next(iter(kept))[0].dtype is torch.uint8
    dataset.transform = FIXED
    assert next(iter(kept))[0].dtype is torch.float32


def noise(image: Any) -> torch.Tensor:
    return torch.rand(3)


def test_ranks_draw_other_random_numbers(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=noise)
    one, other = (
        next(iter(loader(dataset, 4, sampler=RecordSampler(dataset, num_replicas=2, rank=rank))))[0]
        for rank in range(2)
    )
    assert not torch.isin(one, other).any()


def note_worker(number: int) -> None:
    os.environ["NOTED"] = f"{number} of {len(get_worker_info().dataset)}"  # type: ignore[union-attr]


def noted(samples: list[Any]) -> str:
    return os.environ["NOTED"]


def test_worker_init_fn(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=v1.Compose([UINT8, v1.Lambda(lambda image: image)]))
    found = set(loader(dataset, 8, collate_fn=noted, worker_init_fn=note_worker, workers="auto"))
    assert found == {"0 of 41", "1 of 41"}
    assert "NOTED" not in os.environ


def sum_of_each(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, int]:
    return images.sum((1, 2, 3)), os.getpid()


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_batch_transform(tree: Path, workers: str) -> None:
    dataset = ImageFolderRecord(tree, transform=FIXED)
    found = list(loader(dataset, 8, workers=workers, batch_transform=sum_of_each))
    right = [images.sum((1, 2, 3)) for images, _ in RecordLoader(dataset, 8)]
    assert all(torch.equal(sums, expected) for (sums, _), expected in zip(found, right, strict=True))
    assert (os.getpid() in {process for _, process in found}) is (workers == "threads")


def drawn(*parts: Any) -> torch.Tensor:
    return torch.cat([torch.rand(2), torch.tensor([random.random(), np.random.random()])])


@pytest.mark.parametrize(
    ("name", "device"), [("collate_fn", "cpu"), ("batch_transform", "cpu"), ("batch_transform", "meta")]
)
def test_deterministic_batches_and_the_loop_do_not_change_each_other(tree: Path, name: str, device: str) -> None:
    """The loop draws from the same generators while the next batches are made."""
    dataset = ImageFolderRecord(tree, transform=FIXED)
    options = {"batch_size": 4, name: drawn, "deterministic": True, "seed": 1, "workers": "auto", "device": device}

    def run(num_workers: int, seed: int) -> tuple[list[Any], list[Any]]:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        found: list[Any] = []
        both = [(found.append(batch), drawn())[1] for batch in loader(dataset, num_workers=num_workers, **options)]
        return found, both

    (batches, numbers), (again, _), (_, mine) = run(1, 1), run(3, 2), run(2, 1)
    assert_same(again, batches)
    assert_same(mine, numbers)
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    assert_same(numbers, [drawn() for _ in range(11)])
    assert len(torch.cat(batches).unique()) == 44


@pytest.mark.parametrize(
    ("of_dataset", "options", "named"),
    [
        ({"transform": v1.Compose([UINT8, v1.Lambda(noise)])}, {}, "Lambda"),
        ({"transform": FIXED}, {"collate_fn": drawn}, "collate_fn drawn"),
    ],
)
def test_threads_do_not_seed(tree: Path, of_dataset: Any, options: Any, named: str) -> None:
    dataset = ImageFolderRecord(tree, **of_dataset)
    refused = RecordLoader(dataset, 8, workers="threads", deterministic=True, **options)
    with pytest.raises(ArgumentError, match=f"deterministic=True: {named}.* is not compiled; workers='threads' would"):
        next(iter(refused))
    assert "is not compiled" in refused.explain().splitlines()[-1]
    said = RecordLoader(dataset, 8, deterministic=True, **options).explain().splitlines()[-1]
    assert said.startswith("  workers: processes: deterministic, and ")
    fused = RecordLoader(ImageFolderRecord(tree, transform=FIXED), 8, workers="threads", deterministic=True)
    assert "workers: threads: all is fused" in str(fused)


def test_deterministic_where_there_can_be_no_processes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The calling thread draws the numbers of worker processes, and then has its own again."""
    dataset = ImageFolderRecord(tree, transform=lambda image: torch.rand(1))
    options = {"deterministic": True, "seed": 1, "batch_transform": lambda images, labels: (images, torch.rand(1))}
    right = list(RecordLoader(dataset, 8, num_workers=3, **options))
    before = torch.get_rng_state()
    assert_same(list(RecordLoader(dataset, 8, num_workers=0, **options)), right)
    assert_same(list(RecordLoader(dataset, 8, multiprocessing_context="spawn", **options)), right)
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert_same(list(RecordLoader(dataset, 8, **options)), right)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_newer_iterator_takes_the_persistent_workers(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=UINT8)
    kept, right = loader(dataset, 8, True, seed=1, persistent_workers=True), loader(dataset, 8, True, seed=1)
    epochs = [list(right), list(right)]
    one, other = iter(kept), iter(kept)
    found = [next(one)]
    rest = [next(other)]
    with pytest.raises(ArgumentError, match="persistent_workers=True: a newer iterator of this RecordLoader took over"):
        next(one)
    assert list(one) == []
    assert_same(found, epochs[0][:1])
    assert_same([*rest, *other], epochs[1])


def test_blocks_are_forgotten_when_the_user_has_them(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(RecordReader, "forget", lambda self, field, places: forgotten.extend(places.tolist()))
    dataset = ImageFolderRecord(tree, transform=UINT8)
    sampler = RecordSampler(dataset, shuffle="block", block_bytes=20_000, window=1)
    batches = iter(loader(dataset, 4, sampler=sampler, drop_cache=True))
    next(batches)
    assert not forgotten
    assert len(list(batches)) == 10
    wait_for(lambda: sorted(forgotten) == list(range(len(dataset))), "all blocks to be forgotten")


SCRIPT = """
import os, signal, sys, time
from recordzoo import ImageFolderRecord, RecordLoader, RecordSampler
from tests.batching import UINT8
from torchvision import transforms as v1

def slow(image):
    time.sleep(0.2)
    return image

if __name__ == "__main__":
    dataset = ImageFolderRecord(sys.argv[1], transform=v1.Compose([UINT8, slow]))
    loader = RecordLoader(dataset, 4, num_workers=2, workers="processes", multiprocessing_context=sys.argv[2])
    for number, (images, labels) in enumerate(loader):
        print(number, len(labels), flush=True)
        if number == 1:
            time.sleep(60)
"""


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent differently there")
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_ctrl_c(tree: Path, tmp_path: Path, context: str) -> None:
    """It reaches the whole group of processes, as a terminal sends it; all of them end."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = start([sys.executable, str(script), str(tree), context], environment)
    assert list(islice(process.lines("stdout"), 2)) == ["0 4\n", "1 4\n"]
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    wait_for(lambda: not is_alive(process.pid), "the end of the last process")
