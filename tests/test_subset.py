"""`subset`: some records as a new set, and some samples of an open dataset, compared with all of them."""

import pickle
import shutil

import numpy as np
import pytest
import torch
from torch.utils.data import Subset
from torchvision.transforms import v2

import recordzoo
from recordzoo import CIFAR10Record, ImageFolderRecord, RecordLoader, RecordReader
from recordzoo.errors import ArgumentError, CorruptRecordError
from recordzoo.records.verify import verify
from tests.combining import PER_SHARD, assert_holds, write_set
from tests.fakes import cifar, folder
from tests.fakes.records import flip_byte, place_of
from tests.running import run


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A set with three classes and three splits."""
    return write_set(tmp_path_factory.mktemp("old") / "a.records", 14)


def stored(old, output, **chosen):
    chosen = {"workers": 1, "shard_bytes": PER_SHARD, **chosen}
    return RecordReader(recordzoo.subset(old.path, output=output, **chosen))


@pytest.mark.slow
class TestStored:
    def test_a_split_in_its_order(self, old, tmp_path):
        new = stored(old, tmp_path / "b.records", split="train")
        positions = old.split("train").tolist()
        assert_holds(new, [(old, position) for position in positions])
        assert list(new.names) == [old.names[position] for position in positions]
        assert new.manifest.splits == {"train": 9, "small": 3}
        assert [positions[place] for place in new.split("small")] == [1, 2, 4]
        assert new.manifest.classes == ("cat", "dog", "owl")
        assert verify(new.folder, full=True).problems == []

    def test_indices_in_their_order_also_within_a_split(self, old, tmp_path):
        assert_holds(stored(old, tmp_path / "b.records", indices=[9, 0, 13]), [(old, 9), (old, 0), (old, 13)])
        new = stored(old, tmp_path / "c.records", split="val", indices=np.array([4, 1], np.int16))
        assert_holds(new, [(old, 12), (old, 3)])

    def test_classes_are_numbered_anew_in_the_order_given(self, old, tmp_path):
        new = stored(old, tmp_path / "b.records", classes=["owl", "cat"])
        chosen = [position for position in range(14) if position % 3 != 1]
        assert_holds(new, [(old, position) for position in chosen])
        assert new.manifest.classes == ("owl", "cat")
        assert new.array("target").tolist() == [1 if position % 3 == 0 else 0 for position in chosen]
        assert recordzoo.open(new.path).class_to_idx == {"owl": 0, "cat": 1}
        assert stored(old, tmp_path / "b.records", classes=[2, "cat"]).digest == new.digest

    def test_the_manifest_says_what_was_chosen(self, old, tmp_path):
        new = stored(old, tmp_path / "b.records", split="train", classes=["dog"], indices=range(8))
        (said,) = new.manifest.metadata["made_of"]["sets"]
        assert (said["digest"], said["records"], said["chosen"]["records"]) == (old.digest, 14, 4)
        assert (said["chosen"]["split"], said["chosen"]["labels"]) == ("train", [1])
        assert "made of:  a.records, 4 of 14 records, digest" in run("info", new.path, cwd=tmp_path).stdout

    @pytest.mark.parametrize(
        ("chosen", "said"),
        [
            ({}, "Nothing is chosen"),
            ({"split": "small", "classes": ["owl"], "indices": [0, 1]}, "No record of .*a.records is left"),
            ({"split": "trian"}, "train"),
            ({"classes": ["bird"]}, "There is no class 'bird'"),
            ({"classes": "cat"}, "must be a list of names"),
            ({"classes": ["cat", 0]}, "The class 0 is given twice"),
            ({"indices": [1, 2, 1]}, "The index 1 is given twice"),
            ({"indices": [-1]}, "Index -1 is out of range"),
            ({"split": "val", "indices": [5]}, "Index 5 is out of range: split 'val' of .* has 5 records"),
            ({"indices": [0.5]}, "whole numbers"),
            ({"indices": [[1]]}, "one dimension"),
        ],
    )
    def test_what_is_refused(self, old, tmp_path, chosen, said):
        with pytest.raises(ArgumentError, match=said):
            recordzoo.subset(old.path, output=tmp_path / "b.records", **chosen)
        assert list(tmp_path.iterdir()) == []

    def test_a_damaged_value_matters_only_if_it_is_chosen(self, old, tmp_path):
        path = shutil.copytree(old.path, tmp_path / "a.records")
        flip_byte(*place_of(path, 5))
        damaged = RecordReader(path)
        assert_holds(stored(damaged, tmp_path / "b.records", indices=[4, 6]), [(old, 4), (old, 6)])
        with pytest.raises(CorruptRecordError, match=r"image 5 \(0005.jpg\) is damaged"):
            stored(damaged, tmp_path / "c.records", indices=[4, 5])
        assert not (tmp_path / "c.records").exists()

    def test_the_command(self, old, tmp_path):
        words = ["subset", old.path, "--output"]
        (tmp_path / "places.txt").write_text("3\n2\n")
        np.save(tmp_path / "places.npy", np.array([3, 2], np.uint8))
        for more, expected in (
            (["--indices", "1,5-7"], [1, 5, 6, 7]),
            (["--indices", "places.txt"], [3, 2]),
            (["--indices", "places.npy"], [3, 2]),
            (["--split", "val", "--classes", "cat"], [0, 3, 6, 9, 12]),
        ):
            path = tmp_path / f"{more[-1]}.records"
            assert run(*words, path, *more, "--json", cwd=tmp_path).returncode == 0
            assert_holds(RecordReader(path), [(old, position) for position in expected])
        (tmp_path / "places.npy").write_bytes(pickle.dumps([1]))
        np.save(tmp_path / "mask.npy", np.array([True, False]))
        for text in ("nowhere", "1,,2", "0-99999999999999", "9" * 30, "places.npy", "mask.npy"):
            assert run(*words, "b.records", "--indices", text, cwd=tmp_path).returncode == 2


def assert_shows(view, dataset, indices):
    """The view has these samples of the dataset, and its lists say so."""
    assert len(view) == len(indices)
    for number, index in enumerate(indices):
        assert view[number][0].tobytes() == dataset[index][0].tobytes()
        assert view.classes[view[number][1]] == dataset.classes[dataset[index][1]]
        assert view.samples[number][0] == dataset.samples[index][0]
        assert view.read(number) == dataset.read(index)
    assert view.targets == [view[number][1] for number in range(len(indices))]


class TestView:
    def test_of_a_path(self, old):
        dataset = recordzoo.open(old.path)
        assert_shows(recordzoo.subset(old.path, split="val"), dataset, old.split("val").tolist())
        assert_shows(recordzoo.subset(str(old.path), indices=[5, 2, 5]), dataset, [5, 2, 5])

    def test_classes_are_numbered_anew_and_a_view_has_views(self, old):
        dataset = recordzoo.open(old.path)
        view = recordzoo.subset(dataset, classes=["owl", "cat"])
        chosen = [position for position in range(14) if position % 3 != 1]
        assert_shows(view, dataset, chosen)
        assert (view.classes, view.class_to_idx) == (["owl", "cat"], {"owl": 0, "cat": 1})
        assert dataset.classes == ["cat", "dog", "owl"]
        inner = recordzoo.subset(view, classes=["cat"], indices=[0, 2, 4, 6])
        assert_shows(inner, dataset, [0, 3, 6, 9])
        assert inner.targets == [0] * 4
        assert recordzoo.subset(view, indices=[1, 0]).targets == [0, 1]
        with pytest.raises(ArgumentError, match="no class 'dog'; valid is"):
            recordzoo.subset(view, classes=["dog"])
        again = pickle.loads(pickle.dumps(inner))
        assert (again.targets, again.classes) == ([0] * 4, ["cat"])

    def test_a_split_of_a_view_is_what_of_it_is_in_the_split(self, old):
        dataset = recordzoo.open(old.path)
        assert_shows(recordzoo.subset(recordzoo.subset(dataset, indices=[9, 4, 3]), split="val"), dataset, [3, 9])

    @pytest.mark.slow
    def test_a_loader_reads_it_as_the_dataset(self, old):
        transform = v2.Compose([v2.Resize((8, 8)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
        dataset = recordzoo.open(old.path, transform=transform)
        view = recordzoo.subset(dataset, classes=["owl", "dog"])
        assert view.batch_source().problem == ""
        images, targets = next(iter(RecordLoader(view, batch_size=9)))
        ((all_images, _),) = list(RecordLoader(dataset, batch_size=14))
        chosen = [position for position in range(14) if position % 3]
        assert torch.equal(images, all_images[chosen])
        assert targets.tolist() == [1 if position % 3 == 1 else 0 for position in chosen]

    @pytest.mark.slow
    def test_of_the_catalogues_datasets(self, tmp_path):
        folder.write_tree(tmp_path / "photos")
        tree = ImageFolderRecord(tmp_path / "photos")
        assert_shows(recordzoo.subset(tree, classes=["dog"]), tree, [i for i, t in enumerate(tree.targets) if t == 2])
        cifar.build().write_tree(tmp_path)
        arrays = CIFAR10Record(tmp_path, check_hash=False)
        view = recordzoo.subset(arrays, indices=[3, 1])
        assert type(view) is Subset
        assert view[0][0].tobytes() == arrays[3][0].tobytes()
        with pytest.raises(ArgumentError, match="classes cannot be numbered anew"):
            recordzoo.subset(arrays, classes=["cat"])

    def test_what_is_refused(self, old, tmp_path):
        for chosen, said in (
            ({"indices": []}, "No sample of .* is left"),
            ({"indices": [14]}, "Index 14 is out of range: there are 14 samples"),
            ({"split": "trian"}, "train"),
            ({"indices": [1], "workers": 2}, "Argument workers is for a new record set: pass output, too"),
        ):
            with pytest.raises(ArgumentError, match=said):
                recordzoo.subset(old.path, **chosen)
        dataset = recordzoo.open(old.path)
        dataset.samples.pop()
        with pytest.raises(ArgumentError, match="samples of the dataset were changed"):
            recordzoo.subset(dataset, indices=[1])
        with pytest.raises(ArgumentError, match="Argument records is list; it must be a record set's path"):
            recordzoo.subset([1, 2], indices=[1])
        with pytest.raises(ArgumentError, match=r"a new set is made of a record set: pass its path"):
            recordzoo.subset(recordzoo.open(old.path), indices=[1], output=tmp_path / "b.records")
