"""The lazy sequences behave as the lists they stand for."""

import copy
import pickle
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from recordzoo import ImageFolderRecord
from recordzoo.datasets.sequences import LazyList, Selection, find_name
from recordzoo.recipes.class_folders import class_folder_order, name_key
from tests.fakes import folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> ImageFolderRecord:
    return ImageFolderRecord(folder.write_tree(tmp_path_factory.mktemp("sequences") / "photos"))


@pytest.fixture(params=["samples", "targets"])
def lazy(request: pytest.FixtureRequest, dataset: ImageFolderRecord) -> LazyList[Any]:
    sequence = copy.copy(getattr(dataset, request.param))
    assert isinstance(sequence, LazyList)
    return sequence


READS: dict[str, Callable[[Any], Any]] = {
    "len": len,
    "list": list,
    "repr": repr,
    "str": str,
    "bool": bool,
    "first": lambda s: s[0],
    "last": lambda s: s[-1],
    "slice": lambda s: s[2:9:3],
    "backwards": lambda s: s[::-1],
    "empty slice": lambda s: s[5:2],
    "numpy index": lambda s: s[np.int64(3)],
    "tensor index": lambda s: s[torch.tensor(3)],
    "bool index": lambda s: s[True],
    "past the end": lambda s: s[100],
    "before the start": lambda s: s[-100],
    "float index": lambda s: s[1.0],
    "text index": lambda s: s["a"],
    "none index": lambda s: s[None],
    "contains": lambda s: (s[4] in s, ("x", 0) in s, 77 in s, None in s),
    "index": lambda s: s.index(s[6]),
    "index from": lambda s: s.index(s[6], 4, 9),
    "index of nothing": lambda s: s.index("nothing"),
    "count": lambda s: s.count(s[2]),
    "add": lambda s: s + [1],  # noqa: RUF005
    "radd": lambda s: [1] + s,  # noqa: RUF005 - this addition is what is tested
    "add itself": lambda s: s + s,
    "add a tuple": lambda s: s + (1,),  # noqa: RUF005
    "times": lambda s: (s * 2, 2 * s),
    "equal": lambda s: (s == list(s), list(s) == s, s == s[:-1], s == tuple(s), s != list(s), s == 1),
    "less": lambda s: (s < list(s), s <= list(s), s > [], s >= list(s)[1:], list(s) < s),
    "less than a number": lambda s: s < 1,
    "hash": hash,
    "sorted": sorted,
    "reversed": lambda s: list(reversed(s)),
    "unpacked": lambda s: [*s],
    "counted": Counter,
    "zipped": lambda s: list(zip(s, range(3), strict=False)),
    "array": lambda s: np.asarray(s).tolist(),
    "array dtype": lambda s: np.asarray(s).dtype,
    "copied": lambda s: s.copy(),
    "sampled": lambda s: random.Random(3).sample(list(s), 4),
    "enumerated": lambda s: list(enumerate(s)),
    "min": min,
}

WRITES: dict[str, Callable[[Any], Any]] = {
    "set": lambda s: s.__setitem__(1, 5),
    "set past the end": lambda s: s.__setitem__(100, 5),
    "set slice": lambda s: s.__setitem__(slice(1, 4), [7]),
    "delete": lambda s: s.__delitem__(-1),
    "delete slice": lambda s: s.__delitem__(slice(None, None, 2)),
    "append": lambda s: s.append(9),
    "extend": lambda s: s.extend([1, 2]),
    "extend itself": lambda s: s.extend(s),
    "insert": lambda s: s.insert(2, 9),
    "pop": lambda s: s.pop(),
    "pop first": lambda s: s.pop(0),
    "remove": lambda s: s.remove(s[3]),
    "remove nothing": lambda s: s.remove("nothing"),
    "clear": lambda s: s.clear(),
    "reverse": lambda s: s.reverse(),
    "sort": lambda s: s.sort(),
    "sort by key": lambda s: s.sort(key=str, reverse=True),
    "shuffle": lambda s: random.Random(5).shuffle(s),
}


def _result(action: Callable[[Any], Any], sequence: Any) -> Any:
    try:
        found = action(sequence)
    except Exception as err:  # noqa: BLE001 - any difference is what is looked for
        return type(err)
    return list(found) if isinstance(found, LazyList) else found


@pytest.mark.parametrize("action", READS.values(), ids=READS.keys())
def test_reads(lazy: LazyList[Any], action: Callable[[Any], Any]) -> None:
    plain = list(lazy)
    assert _result(action, lazy) == _result(action, plain)
    assert not lazy.changed
    lazy.append(lazy.pop())  # a list of its own now
    assert lazy.changed
    assert _result(action, lazy) == _result(action, plain)


@pytest.mark.parametrize("action", WRITES.values(), ids=WRITES.keys())
def test_writes(lazy: LazyList[Any], action: Callable[[Any], Any]) -> None:
    plain = list(lazy)
    assert _result(action, plain) == _result(action, lazy)
    assert list(lazy) == plain
    assert lazy == plain
    assert len(lazy) == len(plain)
    for twin in (copy.copy(lazy), copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        assert list(twin) == plain
        twin.append(1)
        assert list(lazy) == plain


def test_in_place_operators(lazy: LazyList[Any]) -> None:
    plain, same = list(lazy), lazy
    lazy += [1]
    lazy *= 2
    plain += [1]
    plain *= 2
    assert lazy is same
    assert lazy == plain


def test_targets_as_arrays(dataset: ImageFolderRecord) -> None:
    plain = list(dataset.targets)
    array = np.asarray(dataset.targets)
    assert array.dtype == np.int64
    assert array.tolist() == plain
    array[0] = 99  # its own memory, as that of a list's array
    assert dataset.targets[0] == plain[0]
    assert torch.equal(torch.tensor(dataset.targets), torch.tensor(plain))
    assert torch.equal(torch.as_tensor(dataset.targets), torch.tensor(plain))
    assert dataset.targets.numpy().tolist() == plain  # type: ignore[attr-defined]  # more than a Sequence
    assert all(type(target) is int for target in dataset.targets)
    assert np.asarray(dataset.targets, dtype=np.float32).dtype == np.float32


def test_a_pickled_selection_is_small(dataset: ImageFolderRecord) -> None:
    assert len(pickle.dumps(dataset.samples)) < 700
    with_positions = Selection(dataset.samples.selection.reader, positions=np.array([3, 1]))  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(with_positions)).all_positions().tolist() == [3, 1]


def test_names_are_found_by_bisection() -> None:
    names = ["a/1", "a/.x", "a b/1", "a/b/1", "a/b-c/1", "a/b/c/1", "a-b/1", "ä/1", "a/\udcff", "Z/1", "a/2"]
    ordered = [names[i] for i in class_folder_order(names)]
    assert ordered == sorted(names, key=name_key)
    assert [find_name(ordered, name) for name in ordered] == list(range(len(names)))
    assert [find_name(ordered, name) for name in ("", "a", "a/", "a/0", "zz/1", "/", "a/b/c/1/2")] == [None] * 7
    assert find_name([], "a/1") is None
