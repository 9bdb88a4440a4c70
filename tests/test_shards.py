"""Exactly as many shards as are asked for, where the raw data can be cut; each is as large as it must be."""

import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordzoo.errors import ArgumentError
from recordzoo.preparing.preparation import ensure
from recordzoo.raw.member import even_runs
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from tests.fakes import simple
from tests.fakes.simple import SimpleRecipe
from tests.preparing import beside, contents, run


# Any: options of `ensure`.
def prepare(root: Path, form: str = "tree", **options: Any) -> RecordReader:
    return RecordReader(ensure(SimpleRecipe(form), root, **{"workers": 1, **options}))


@pytest.mark.parametrize("num_shards", [1, 2, 7, 40])
def test_there_are_exactly_so_many_shards(num_shards: int, tmp_path: Path) -> None:
    simple.write(tmp_path, "tree", simple.alike(3000, 80))
    reader = prepare(tmp_path, num_shards=num_shards)
    shards = [spec.num_values for spec in reader.manifest.shards]
    assert len(shards) == num_shards
    assert sum(shards) == 80
    assert max(shards) - min(shards) <= 2  # the file with the labels fills its part of one unit


@pytest.mark.parametrize("workers", [1, 2])
def test_their_bytes_are_those_of_any_number_of_workers(workers: int, tmp_path: Path) -> None:
    simple.write(tmp_path, "tree")
    one = prepare(tmp_path, num_shards=3, records_dir=tmp_path / "one.records")
    other = prepare(tmp_path, num_shards=3, workers=workers, records_dir=tmp_path / "other.records")
    assert contents(one.path) == contents(other.path)


def test_one_shard_has_room_for_everything(tmp_path: Path) -> None:
    """More than was foreseen when its file was made: LMDB's map is enlarged between two transactions."""
    simple.write(tmp_path, "tree", simple.alike(1 << 20, 45))
    reader = prepare(tmp_path, num_shards=1)
    assert [spec.num_values for spec in reader.manifest.shards] == [45]
    assert verify(reader.path, full=True).problems == []


class TestRefusals:
    @pytest.mark.parametrize("form", ["stream", "nested"])
    def test_an_archive_is_not_cut(self, form: str, tmp_path: Path) -> None:
        simple.write(tmp_path, form)
        with pytest.raises(ArgumentError, match=r"simple\.t.* cannot be cut .* Pass shard_bytes"):
            prepare(tmp_path, form, num_shards=3)
        assert beside(tmp_path, form) == []

    def test_more_shards_than_files(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "tree", simple.alike(3000, 4))
        with pytest.raises(ArgumentError, match=r"6 shards .* only 5 files"):
            prepare(tmp_path, num_shards=6)
        assert beside(tmp_path, "tree") == []


def test_an_interrupted_preparation_goes_on_with_its_own_number(tmp_path: Path) -> None:
    simple.write(tmp_path, "tree")
    kill = {"RECORDZOO_KILL_AT": "shard.done:2"}
    ended = run(tmp_path, "tree", env=kill, num_shards=3, shard_bytes=None, workers=1)
    assert ended.code == -signal.SIGKILL
    assert len(prepare(tmp_path, num_shards=4, records_dir=tmp_path / "four.records").manifest.shards) == 4
    four = prepare(tmp_path, num_shards=4)  # the interrupted one's are of no use to it
    assert contents(four.path) == contents(tmp_path / "four.records")


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=60), st.data())
def test_even_runs(sizes: list[int], data: st.DataObject) -> None:
    num_runs = data.draw(st.integers(1, len(sizes)))
    runs = even_runs(sizes, num_runs, "here")
    assert len(runs) == num_runs
    assert [runs[0][0], *(stop for _, stop in runs)] == [0, *(start for start, _ in runs[1:]), len(sizes)]
    assert all(start < stop for start, stop in runs)
    fair = sum(sizes) / num_runs + max(sizes) + len(sizes)
    assert all(sum(sizes[start:stop]) <= fair for start, stop in runs)
    with pytest.raises(ArgumentError, match="here"):
        even_runs(sizes, len(sizes) + 1, "here")
