"""`samples`, `targets`, `data` and the like: torchvision's own types, made when asked for; changes of them count."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torchvision.datasets import ImageFolder, VOCDetection, VOCSegmentation

from recordzoo import ImageFolderRecord, RecordLoader, VOCDetectionRecord, VOCSegmentationRecord, convert
from recordzoo.loader.source import Source
from tests.fakes import folder, voc
from tests.fakes.pictures import picture


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = folder.write_tree(tmp_path_factory.mktemp("derived") / "photos")
    ImageFolderRecord(root)
    return root


def test_all_threads_get_the_same_list(tree: Path) -> None:
    dataset = ImageFolderRecord(tree)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: dataset.samples, range(64)))
    assert all(each is found[0] for each in found)
    assert dataset.imgs is dataset.samples
    found[0][0] = (found[0][5][0], 9)  # who holds it changes the dataset
    assert dataset[0][1] == 9
    assert dataset.read(0) == dataset.read(5)
    dataset.samples = []
    assert len(dataset) == 0
    assert dataset.imgs is found[0]
    assert copy.copy(ImageFolderRecord(tree)).imgs is not found[0]


# More changes, of all datasets: tests/fakes/mutations.py.
CHANGES: dict[str, Callable[[Any], object]] = {
    "a label by its equal": lambda ds: ds.samples.__setitem__(0, (ds.samples[0][0], ds.samples[0][1] + 0.0)),
    "an array": lambda ds: setattr(ds, "samples", np.array(ds.samples, object)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_reach_the_loader_and_the_workers(tree: Path, change: Callable[[Any], object]) -> None:
    theirs, ours = (kind(tree, transform=np.asarray) for kind in (ImageFolder, ImageFolderRecord))
    for dataset in (theirs, ours):
        change(dataset)

    def plain(samples: Any) -> list[Any]:
        return [(image.tobytes(), label, type(label)) for image, label in samples]

    expected = plain(theirs[i] for i in range(len(theirs)))
    assert plain(ours[i] for i in range(len(ours))) == expected
    assert plain(pickle.loads(pickle.dumps(ours))[i] for i in range(len(ours))) == expected
    if expected:
        loader = RecordLoader(ours, batch_size=3, num_workers=1, collate_fn=list)
        assert plain(sample for batch in loader for sample in batch) == expected
    assert "were changed" in Source(ours).problem


def test_what_was_only_looked_at_stays_fast(tree: Path) -> None:
    dataset = ImageFolderRecord(tree)
    size = len(pickle.dumps(dataset))
    assert dataset.samples[0][1] + dataset.targets[0] >= 0
    assert Source(dataset).problem == ""
    assert len(pickle.dumps(dataset)) == size
    dataset.samples.append(dataset.samples.pop())  # as it was
    assert Source(dataset).problem == ""
    dataset.targets.append(3)  # which no sample depends on, in torchvision either
    assert Source(dataset).problem == ""
    assert pickle.loads(pickle.dumps(dataset)).targets[-1] == 3


def test_unchanged_items_are_read_from_their_records(tmp_path: Path) -> None:
    """Names that several records have say nothing; the very tuples do, also in a worker process."""
    rng = np.random.default_rng(0)
    values = [(picture(rng, 9, 8), {"x": i, "name": "same"}) for i in range(4)]
    own = ImageFolderRecord(convert(values, tmp_path / "own.records", workers=1))
    own.samples.pop(0)
    own.samples[1][1]["x"] = 77  # what a person's own targets hold may change as well
    with pytest.raises(KeyError):
        own.samples[0][1]["y"]
    assert [target["x"] for _, target in own] == [1, 77, 3]
    assert [target["x"] for _, target in pickle.loads(pickle.dumps(own))] == [1, 77, 3]


class Property(ImageFolderRecord):
    """A subclass that says itself what the samples are."""

    @property
    def samples(self) -> list[tuple[str, int]]:  # type: ignore[override]  # narrower than a plain attribute
        return [(path, label + 100) for path, label in self.imgs[::-1]]


def test_a_subclass_with_its_own_samples(tree: Path) -> None:
    theirs, ours = ImageFolder(tree), Property(tree)
    assert len(ours) == len(theirs)
    assert [label for _, label in ours] == [label + 100 for label in theirs.targets[::-1]]
    assert ours[0][0].tobytes() == theirs[-1][0].tobytes()
    assert Source(ours).problem


def test_paths_of_other_files_are_read_from_the_disk(tmp_path: Path) -> None:
    root = voc.build().write_tree(tmp_path)
    theirs, ours = VOCSegmentation(root), VOCSegmentationRecord(root)
    for dataset in (theirs, ours):
        dataset.targets = [path.replace("SegmentationClass", "SegmentationObject") for path in dataset.targets]
    assert [mask.tobytes() for _, mask in ours] == [mask.tobytes() for _, mask in theirs]


def test_read_follows_the_images(tmp_path: Path) -> None:
    root = voc.build().write_tree(tmp_path)
    theirs, ours = VOCDetection(root), VOCDetectionRecord(root)
    for dataset in (theirs, ours):
        dataset.images.reverse()
    assert [ours.read(i) for i in range(len(ours))] == [Path(path).read_bytes() for path in theirs.images]
