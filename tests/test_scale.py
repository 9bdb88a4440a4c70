"""100 million samples and more: nothing at opening, shuffling or resuming grows with their number."""

import threading
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recordzoo
from recordzoo.loader.parts import locate
from recordzoo.preparing import assemble
from recordzoo.preparing.assemble import Places, are_repeated, in_threads
from recordzoo.recipes.recipe import ABSENT
from recordzoo.records.manifest import ArraySpec, BlobSpec, FieldKind, FieldSpec, Manifest, SetKind

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


@pytest.mark.parametrize("collide", [False, True])
def test_each_key_is_found(collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if collide:  # all keys have one hash
        monkeypatch.setattr(assemble, "hash", lambda key: 7, raising=False)
    keys = ("b", "a", "dog/1.jpg", "", "\udcff", "c")
    wanted = ["c", None, "nothing", *keys, "c"]
    assert Places(keys).find(wanted, len(wanted)).tolist() == [5, ABSENT, ABSENT, 0, 1, 2, 3, 4, 5, 5]
    assert Places(()).find(["a", None], 2).tolist() == [ABSENT, ABSENT]
    assert not are_repeated(keys)
    assert are_repeated((*keys, "a"))


def test_more_keys_than_are_looked_for_at_once() -> None:
    keys = [str(number) for number in range(70_000)]
    assert Places(keys).find(reversed(keys), 70_000).tolist() == list(range(70_000))[::-1]


def test_small_files_are_read_in_threads_and_come_in_order() -> None:
    both = threading.Barrier(2, timeout=30)

    def double(number: int) -> int:
        if number < 2:
            both.wait()  # two are called at the same time, or this fails
        return 2 * number

    assert list(in_threads(double, range(1000))) == list(range(0, 2000, 2))
