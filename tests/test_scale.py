"""100 million samples and more: nothing at opening, shuffling or resuming grows with their number."""

import threading
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import Subset

import recordzoo
from recordzoo.families.selection import Selection
from recordzoo.images.decode import open_picture
from recordzoo.loader import parts as storage
from recordzoo.loader.parts import locate, storage_of
from recordzoo.preparing import assemble
from recordzoo.preparing.assemble import Places, are_repeated, in_threads
from recordzoo.recipes.recipe import ABSENT
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.records.manifest import ArraySpec, BlobSpec, Manifest
from recordzoo.records.reader import RecordReader
from tests.fakes import folder

MANY = 1 << 36


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest of a record set of 69 billion samples. It has no arrays, so opening one fails."""
    path = tmp_path_factory.mktemp("huge") / "huge.records"
    path.mkdir()

    def spec(dtype: str, length: int, width: int) -> ArraySpec:
        return ArraySpec(dtype, (length,), 128 + length * width, 0, f"sha256:{0:064}")

    arrays = {
        "image.index": spec("", MANY, 24),
        "names": spec("|u1", MANY, 1),
        "names_offsets": spec("<u8", MANY + 1, 8),
        "target": spec("<i8", MANY, 8),
    }
    manifest = Manifest(
        kind=SetKind.FOLDER,
        dataset="folder",
        part="",
        variant="original",
        num_records=MANY,
        blobs={"image": BlobSpec("image")},
        arrays=arrays,
        splits={},
        shards=(),
        fields={"image": FieldSpec(FieldKind.IMAGE), "target": FieldSpec(FieldKind.CLASS, ("cat", "dog"))},
        default_target="target",
        source="tree",
        metadata={"selection": "", "empty_classes": []},
    )
    (path / "manifest.json").write_bytes(manifest.to_bytes())
    (path / "names_offsets.npy").touch()  # what tells a record set from a directory with some manifest.json
    return path


@pytest.mark.parametrize("kind", [recordzoo.open, recordzoo.ImageFolderRecord])
def test_opening_shuffling_and_resuming_look_at_no_array(huge: Path, kind: Any) -> None:
    dataset = kind(huge)
    assert len(dataset) == MANY
    sampler = recordzoo.RecordSampler(dataset, seed=1)
    drawn = iter(sampler)
    list(islice(drawn, 1000))
    state = sampler.state_dict()
    upcoming = list(islice(drawn, 1000))
    resumed = recordzoo.RecordSampler(dataset, seed=1)
    resumed.load_state_dict(state)
    assert list(islice(resumed, 1000)) == upcoming
    assert len(set(upcoming)) == 1000
    located = locate(dataset, np.array(upcoming))
    assert located is not None
    assert located.positions.tolist() == upcoming


def test_samples_are_compared_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever parts samples are looked at: the order is that of their places, and those in order need none."""
    dataset = recordzoo.ImageFolderRecord(folder.write_tree(tmp_path / "photos"), prepare=True)
    index = dataset._selection.reader.array("image.index")
    in_order = np.lexsort((index["offset"], index["shard"]))
    shuffled = np.random.default_rng(0).permutation(len(dataset))
    for at_once in (1, 2, len(dataset) - 1, len(dataset)):
        monkeypatch.setattr(storage, "_AT_ONCE", at_once)
        assert storage_of(Subset(dataset, in_order)).order is None  # type: ignore[arg-type]
        for chosen in (shuffled, shuffled.tolist()):
            found = storage_of(Subset(dataset, chosen))
            assert found.order is not None
            assert shuffled[found.order].tolist() == in_order.tolist()
            assert found.mean_bytes == index["length"].mean()


def test_positions_of_some_samples(tmp_path: Path) -> None:
    dataset = recordzoo.ImageFolderRecord(folder.write_tree(tmp_path / "photos"), prepare=True)
    reader = dataset._selection.reader
    given = Selection(reader, positions=np.array([3, 1, 2]))
    assert given.positions(np.array([2, 0])).tolist() == [2, 3]
    assert Selection(reader).positions(np.array([2, 0])).tolist() == [2, 0]


def test_an_image_is_read_without_the_names(tmp_path: Path) -> None:
    dataset = recordzoo.ImageFolderRecord(folder.write_tree(tmp_path / "photos"), prepare=True)
    names = Path(dataset.records_path) / "names.npy"
    names.write_bytes(bytes(names.stat().st_size))
    assert open_picture(RecordReader(dataset.records_path), 0).size == dataset[0][0].size


class TestPlaces:
    KEYS = ("b", "a", "dog/1.jpg", "", "\udcff", "c")

    @pytest.mark.parametrize("collide", [False, True])
    def test_finds_each_key(self, collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if collide:  # all keys have one hash
            monkeypatch.setattr(assemble, "hash", lambda key: 7, raising=False)
        wanted = ["c", None, "nothing", *self.KEYS, "c"]
        assert Places(self.KEYS).find(wanted, len(wanted)).tolist() == [5, ABSENT, ABSENT, 0, 1, 2, 3, 4, 5, 5]
        assert Places(()).find(["a", None], 2).tolist() == [ABSENT, ABSENT]
        assert Places(self.KEYS).find([], 0).tolist() == []

    def test_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(assemble, "_KEYS_AT_ONCE", 4)
        keys = [str(number) for number in range(11)]
        assert Places(keys).find(reversed(keys), 11).tolist() == list(range(11))[::-1]

    @pytest.mark.parametrize("collide", [False, True])
    def test_a_key_that_stands_twice(self, collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if collide:
            monkeypatch.setattr(assemble, "hash", lambda key: 7, raising=False)
        assert not are_repeated(self.KEYS)
        assert are_repeated((*self.KEYS, "a"))
        assert not are_repeated(())


class TestThreads:
    """Small files are read in threads."""

    def test_results_come_in_order(self) -> None:
        both = threading.Barrier(2, timeout=30)

        def double(number: int) -> int:
            if number < 2:
                both.wait()  # two are called at the same time, or this fails
            return 2 * number

        assert list(in_threads(double, range(1000))) == list(range(0, 2000, 2))
        assert list(in_threads(double, [])) == []
        assert list(in_threads(double, [7])) == [14]

    def test_an_error_comes_at_its_place(self) -> None:
        done = []

        def fail(number: int) -> int:
            done.append(number)
            if number == 3:
                raise OSError("three")
            return number

        results = in_threads(fail, range(600))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(OSError, match="three"):
            next(results)
        assert max(done) < 300  # what is far behind is not begun
