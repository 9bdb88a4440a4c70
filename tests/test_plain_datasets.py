"""`RecordLoader` over datasets of others: files as torchvision lists them, and bytes of one's own."""

import errno
import io
import itertools
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, UnidentifiedImageError
from torch.utils.data import ConcatDataset, DataLoader, Subset, default_collate
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.datasets.folder import default_loader, pil_loader
from torchvision.datasets.vision import StandardTransform
from torchvision.transforms import v2

from recordzoo import HasImageBytes, ImageFolderRecord, RecordLoader, VOCDetectionRecord
from recordzoo.errors import ArgumentError, EmptyBatchError, ImageError
from recordzoo.loader import stores
from recordzoo.loader.source import JointLeaf, Source
from recordzoo.recipes.recipe import is_plain_jpeg
from tests.batching import FIXED, JITTER, RANDOM, UINT8, assert_same, image_file, make_tree
from tests.contract import DECLARED, ROWS, Row
from tests.fakes import voc
from tests.fakes.folder import write_tree
from tests.fakes.odd_images import odd_images

# Any, in all of this module: datasets, transforms and batches of all kinds.


def negative(label: int) -> int:
    return -label


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("plain") / "photos")


def both(root: Path, transform: Any = None, **arguments: Any) -> tuple[datasets.ImageFolder, ImageFolderRecord]:
    return datasets.ImageFolder(root, transform, **arguments), ImageFolderRecord(root, transform, **arguments)


def problem(dataset: Any) -> str:
    """Why it is not fused; "" if it is."""
    return Source(dataset).problem


@pytest.mark.parametrize("target_transform", [None, negative])
@pytest.mark.parametrize("transform", [FIXED, UINT8], ids=["floats", "bytes"])
def test_batches_are_those_of_the_stock_loader_and_of_records(
    root: Path, transform: Any, target_transform: Any
) -> None:
    files, records = both(root, transform, target_transform=target_transform)
    right = list(DataLoader(files, batch_size=8))
    for dataset in (files, records):
        assert_same(list(RecordLoader(dataset, batch_size=8)), right)
    assert ("not fused" in str(RecordLoader(files))) == (target_transform is not None)


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("transform", [RANDOM, JITTER], ids=["fused", "jitter"])
def test_random_order_and_crops_are_those_of_records(root: Path, transform: Any, workers: Any) -> None:
    arguments: Any = {"batch_size": 8, "shuffle": True, "seed": 3, "num_workers": 2, "workers": workers}
    loaders = [RecordLoader(dataset, **arguments) for dataset in both(root, transform)]
    for _ in range(2):
        for made, right in zip(*loaders, strict=True):
            assert_same(made, right)


def test_images_of_all_modes(tmp_path: Path) -> None:
    images = {f"a/{name}": data for name, data in odd_images().items() if not name.startswith("large")}
    write_tree(tmp_path / "odd", {**images, "a/zero.jpg": image_file(0)})
    folder = datasets.ImageFolder(tmp_path / "odd", v1.PILToTensor())
    assert {folder[index][0].shape[0] for index in range(len(folder))} == {3}
    assert_same(list(RecordLoader(folder, batch_size=None)), list(DataLoader(folder, batch_size=None)))
    folder.transform = UINT8
    assert_same(list(RecordLoader(folder, batch_size=8)), list(DataLoader(folder, batch_size=8)))


_NAMES = (
    *("CLEVRClassification", "DatasetFolder", "DTD", "FGVCAircraft", "Flickr30k", "Flickr8k", "Flowers102", "Food101"),
    *("GTSRB", "INaturalist", "Imagenette", "LFWPeople", "Omniglot", "OxfordIIITPet", "Places365", "RenderedSST2"),
    *("StanfordCars", "SUN397"),
)
KNOWN = {getattr(datasets, name) for name in _NAMES}
"""Classes of torchvision whose files the loader decodes; `DatasetFolder` has `ImageFolder` and others below it."""


def known_base(kind: type) -> type | None:
    return next((base for base in kind.__mro__ if base in KNOWN), None)


def rows() -> dict[str, tuple[Row, dict[str, Any]]]:
    """Every configuration of the contract's whose torchvision class is in the table, with a loader that is fused."""
    found: dict[str, tuple[Row, dict[str, Any]]] = {}
    for row in (*ROWS, *DECLARED):
        kind = getattr(datasets, row.name.split()[0], None)
        is_images = row.name not in ("DatasetFolder text", "DatasetFolder function")
        base: Any = None if kind is None else known_base(kind)
        if is_images and base is not None and kind.__getitem__ is base.__getitem__:
            is_loaded = "loader" in row.arguments or row.name.startswith(("Omniglot", "INaturalist"))
            found[row.name] = row, {**row.arguments, **({"loader": default_loader} if is_loaded else {})}
    return found


CHOSEN = [
    pytest.param(name, marks=pytest.mark.slow if row.is_brief and "target_type" not in name else ())
    for name, (row, _) in rows().items()
]


@pytest.mark.parametrize("name", CHOSEN)
def test_every_class_gives_what_torchvision_gives(name: str, tmp_path: Path) -> None:
    row, arguments = rows()[name]
    pair = row.build(tmp_path, "tree")
    dataset = pair.theirs(pair.their_root, **arguments)
    if hasattr(dataset, "_target_types") and "segmentation" in dataset._target_types:
        assert problem(dataset) == "its targets are images"
        return
    assert problem(dataset) == ""
    assert len(dataset) > 0
    dataset.transform, dataset.target_transform = UINT8, repr
    dataset.transforms = StandardTransform(UINT8, repr)
    made, right = (list(loader(dataset, batch_size=3)) for loader in (RecordLoader, DataLoader))
    assert_same(made, right)
    dataset.transform = dataset.target_transform = dataset.transforms = None
    assert_same([image for image, _ in RecordLoader(dataset, None)], [image for image, _ in dataset])


class Inherits(datasets.ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    def find_classes(self, directory: str) -> Any:
        return ["0", "2"], {"0": 7, "2": 5}


class ListsFiles(datasets.ImageFolder):  # type: ignore[misc]
    def __init__(self, files: datasets.ImageFolder) -> None:  # as DeiT's, which does not call its base class's
        self.transform, self.target_transform, self.loader = UINT8, None, default_loader
        self.samples = files.samples[::-1]


class MakesSamples(datasets.ImageFolder):  # type: ignore[misc]
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[::-1]


class MakesBatches(datasets.ImageFolder):  # type: ignore[misc]
    def __getitems__(self, indices: list[int]) -> Any:
        return [self[-index] for index in indices]


def test_what_is_not_fused(root: Path, tmp_path: Path) -> None:
    theirs = "its loader is not torchvision's default_loader"
    for dataset, why in [
        (MakesSamples(root, UINT8), "MakesSamples makes its samples itself"),
        (MakesBatches(root, UINT8), "MakesBatches makes its samples itself"),
        (datasets.ImageFolder(root, UINT8, loader=pil_loader), theirs),
        (datasets.DatasetFolder(root, os.path.getsize, (".jpg",)), theirs),
        (datasets.FakeData(4, (3, 8, 8), transform=v1.PILToTensor()), "FakeData makes its samples itself"),
        (datasets.wrap_dataset_for_transforms_v2(datasets.ImageFolder(root, UINT8)), None),
    ]:
        found = problem(dataset)
        assert found == why or (why is None and "makes its samples itself" in found)
        loader = RecordLoader(dataset, 4, workers="threads", num_workers=1)
        assert f"not fused: {found}" in str(loader)
        assert_same(next(iter(loader)), next(iter(DataLoader(dataset, 4))))


def test_a_subclass_that_inherits_getitem(root: Path) -> None:
    dataset = Inherits(root, UINT8)
    assert problem(dataset) == ""
    assert {label for _, labels in RecordLoader(dataset, 5) for label in labels.tolist()} == {5, 7}
    assert_same(list(RecordLoader(dataset, 5)), list(DataLoader(dataset, 5)))
    dataset.samples = dataset.samples[3:9]
    for each in (dataset, ListsFiles(dataset), ConcatDataset([dataset, ListsFiles(dataset)])):
        assert_same(list(RecordLoader(each, 5)), list(DataLoader(each, 5)))
        assert problem(each) == ""
    with pytest.raises(AttributeError, match=r"Own.__init__ must call that of its base class\. .* torchvision's"):
        type("Own", (ImageFolderRecord,), {"__init__": ListsFiles.__init__})(dataset)


def test_transforms_of_both(tmp_path: Path) -> None:
    """Places365 calls `transforms`, which a person may exchange for one that takes image and target together."""
    row, arguments = rows()["Places365"]
    pair = row.build(tmp_path, "tree")
    dataset = pair.theirs(pair.their_root, transform=UINT8, target_transform=negative, **arguments)
    dataset.transform = None  # which it does not look at
    assert_same(list(RecordLoader(dataset, 2)), list(DataLoader(dataset, 2)))
    dataset.transforms = lambda image, target: (target, UINT8(image))
    assert problem(dataset) == "its transforms take image and target together"
    assert_same(list(RecordLoader(dataset, 2)), list(DataLoader(dataset, 2)))


CUT, NONSENSE = image_file(1)[:900], b"nonsense"


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (Path.unlink, "No such file or directory"),
        (lambda path: path.write_bytes(NONSENSE), "cannot identify image file"),
        (lambda path: path.write_bytes(b""), "cannot identify image file"),
        (lambda path: path.write_bytes(CUT), "image file is truncated"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
    ],
    ids=["missing", "nonsense", "empty", "cut", "directory"],
)
def test_failures_are_those_of_the_stock_loader(
    spoil: Callable[[Path], Any], words: str, workers: Any, tmp_path: Path
) -> None:
    write_tree(tmp_path / "t", {f"a/{number}.jpg": image_file(number) for number in range(6)})
    dataset = datasets.ImageFolder(tmp_path / "t", FIXED)
    path = tmp_path / "t" / "a" / "3.jpg"
    spoil(path)
    with pytest.raises(Exception, match=words) as right:
        list(DataLoader(dataset, 2))
    loader = RecordLoader(dataset, 2, workers=workers, num_workers=1)
    batches = iter(loader)
    next(batches)
    with pytest.raises(Exception, match=words) as found:
        next(batches)
    assert type(found.value) is type(right.value)
    assert repr(str(path)) in str(found.value)
    if path.is_dir():
        path.rmdir()
    path.write_bytes(image_file(3))
    assert_same(list(loader), list(DataLoader(dataset, 2)))


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_errors_of_transforms_name_the_file(root: Path, on_error: Any) -> None:
    files, records = both(root, v1.Compose([v1.RandomCrop(500), v1.ToTensor()]))
    for dataset, named in ((files, rf"'{root}/0/00\.jpg'"), (records, r"sample 0 \(0/00\.jpg\)")):
        with pytest.raises(ValueError, match=r"crop size .* is larger than input image size") as found:
            list(RecordLoader(dataset, 4, on_error=on_error))
        assert re.search(named, found.value.__notes__[-1])


def test_a_file_is_looked_at_once_in_each_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decoded of a JPEG depends on its being plain."""
    looked_at = list[bytes]()
    monkeypatch.setattr(stores, "is_plain_jpeg", lambda data: looked_at.append(data) or is_plain_jpeg(data))
    dataset = datasets.ImageFolder(write_tree(tmp_path / "t", {"a/0.jpg": image_file(0)}), v1.PILToTensor())
    loader = RecordLoader(dataset, num_workers=1)
    for data in (image_file(0), image_file(6)):
        (tmp_path / "new").write_bytes(data)
        os.replace(tmp_path / "new", tmp_path / "t" / "a" / "0.jpg")
        for _ in range(2):
            assert_same(list(loader), list(DataLoader(dataset)))
    assert looked_at == [image_file(0), image_file(6)]


class OwnBytes:
    """A dataset of one's own: no base class, no `__getitem__`."""

    def __init__(self, transform: Any = None, target_transform: Any = None) -> None:
        self.transform, self.target_transform = transform, target_transform
        self.files = [image_file(number) for number in range(12)]

    def __len__(self) -> int:
        return len(self.files)

    def image_bytes(self, index: int) -> bytes:
        return self.files[index]

    def target(self, index: int) -> Any:
        return {"number": index}


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_dataset_of_ones_own(tmp_path: Path, workers: Any) -> None:
    write_tree(tmp_path / "t", {f"a/{number:02d}.jpg": image_file(number) for number in range(12)})
    dataset, folder = OwnBytes(RANDOM), datasets.ImageFolder(tmp_path / "t", RANDOM)
    assert isinstance(dataset, HasImageBytes)
    assert problem(dataset) == ""
    arguments: Any = {"batch_size": 4, "shuffle": True, "seed": 2, "workers": workers}
    order = []
    loaders = (RecordLoader(each, **arguments) for each in (dataset, folder))
    for (images, targets), (right, _) in zip(*loaders, strict=True):
        assert_same(images, right)
        order += targets["number"].tolist()
    assert sorted(order) == list(range(12)) != order
    dataset.transform, dataset.target_transform = FIXED, lambda target: target["number"] + 1
    folder.transform = FIXED
    made, right = (
        next(iter(load(Subset(ds, [5, 1]), 2))) for load, ds in ((RecordLoader, dataset), (DataLoader, folder))
    )
    assert_same(made[0], right[0])
    assert made[1].tolist() == [6, 2]


def test_failures_of_ones_own(tmp_path: Path) -> None:
    dataset = OwnBytes(FIXED)
    dataset.files[1] = NONSENSE
    with pytest.raises(UnidentifiedImageError, match="cannot identify image file sample 1 of OwnBytes"):
        list(RecordLoader(dataset, 4))
    dataset.files[1] = CUT
    with pytest.raises(OSError, match=r"image file is truncated .*: sample 1 of OwnBytes"):
        list(RecordLoader(dataset, 4))
    dataset.files[1] = tmp_path  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"image_bytes\(1\) returned no bytes, but \w*Path"):
        list(RecordLoader(dataset, 4))
    with pytest.raises(TypeError, match="abstract method"):  # the first base hides the methods of the second
        type("Mixed", (HasImageBytes, OwnBytes), {})()
    dataset.image_bytes = {}.__getitem__  # type: ignore[method-assign]
    with pytest.raises(KeyError) as found:
        next(iter(RecordLoader(dataset, 4)))
    assert found.value.__notes__[0] == "while reading sample 0 of OwnBytes"


def of_size(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("/dev/null"),
        lambda path: of_size(path, 20 << 30),
        lambda path: path.symlink_to("/proc/self/status"),  # has no size
    ],
    ids=["zeros", "null", "sparse", "status"],
)
def test_files_without_an_end(make: Callable[[Path], None], workers: Any, tmp_path: Path) -> None:
    write_tree(tmp_path / "t", {f"a/{number}.jpg": image_file(number) for number in range(4)})
    dataset = datasets.ImageFolder(tmp_path / "t", UINT8)
    path = tmp_path / "t" / "a" / "2.jpg"
    path.unlink()
    make(path)
    with pytest.raises(UnidentifiedImageError, match="cannot identify image file"):
        list(DataLoader(dataset, 2))
    batches = iter(RecordLoader(dataset, 2, workers=workers, num_workers=1))
    assert_same(next(batches), next(iter(DataLoader(dataset, 2))))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnidentifiedImageError, match=r"cannot identify image file '\S+/a/2\.jpg'"):
        next(batches)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 50_000  # KB


def test_a_large_file_is_read_by_pillow(tmp_path: Path) -> None:
    dataset = datasets.ImageFolder(write_tree(tmp_path / "t", {"a/0.png": image_file(0)}), UINT8)
    right = list(DataLoader(dataset))
    os.truncate(tmp_path / "t" / "a" / "0.png", 300_000_000)  # bytes behind the image do not matter
    assert_same(list(RecordLoader(dataset, num_workers=1)), right)


class Bad:
    """Twelve photos of which some cannot be read; their numbers are their labels."""

    def __init__(self, folder: Path) -> None:
        write_tree(folder, {f"{number:02d}/0.jpg": image_file(number) for number in range(12)})
        self.good = ImageFolderRecord(folder, UINT8)
        self.files = datasets.ImageFolder(folder, UINT8)
        (folder / "03" / "0.jpg").unlink()
        (folder / "04" / "0.jpg").write_bytes(NONSENSE)
        (folder / "11" / "0.jpg").write_bytes(CUT)
        self.bad = {3, 4, 11}

    def right(self, start: int, end: int) -> list[Any]:
        """The batch of some samples, as the stock loader makes it of those that can be read."""
        left = [number for number in range(start, end) if number not in self.bad]
        return next(iter(DataLoader(Subset(self.files, left), len(left))))


@pytest.fixture
def bad(tmp_path: Path) -> Bad:
    return Bad(tmp_path / "photos")


@pytest.mark.parametrize("workers", ["threads", "processes"])
@pytest.mark.parametrize("collate", [None, list], ids=["rows", "samples"])
def test_samples_that_cannot_be_read_are_left_out(
    bad: Bad, workers: Any, collate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    loader = RecordLoader(bad.files, 4, num_workers=3, workers=workers, on_error="skip", collate_fn=collate)
    for epoch in (1, 2):
        caplog.clear()
        batches = list(loader)
        assert len(batches) == len(loader) == 3
        made = batches if collate is None else list(map(default_collate, batches))
        assert_same(made, [bad.right(start, start + 4) for start in (0, 4, 8)])
        assert loader.state_dict()["skipped"] == 3 * epoch
        (line,) = caplog.messages
        path = Path(bad.files.root) / "03" / "0.jpg"
        assert line == (
            "RecordLoader left out 3 samples of this epoch that cannot be read or decoded; the first: "
            f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
        )


class Changing(OwnBytes):
    """Images that change while they are read: what the given functions of the number of the reading say is damaged."""

    def __init__(self, damaged: dict[int, Callable[[int], bool]]) -> None:
        super().__init__(UINT8, lambda target: target["number"])
        self.damaged = damaged
        self.times = dict.fromkeys(range(12), 0)

    def image_bytes(self, index: int) -> bytes:
        self.times[index] += 1
        return NONSENSE if index in self.damaged and self.damaged[index](self.times[index]) else self.files[index]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    ("damaged", "left_out"),
    [
        ({1: lambda times: times == 1}, []),  # it is there again
        ({1: lambda times: times < 3}, [1]),
        ({1: lambda times: True, 2: lambda times: times > 1}, [1, 2]),  # spoilt after it was looked at
    ],
)
def test_what_changes_in_mid_epoch_is_left_out(
    damaged: dict[int, Callable[[int], bool]], left_out: list[int], num_workers: int
) -> None:
    loader = RecordLoader(Changing(damaged), 12, on_error="skip", num_workers=num_workers, workers="threads")
    ((images, targets),) = loader
    assert set(targets.tolist()) >= set(range(12)) - {*damaged}
    assert set(targets.tolist()) & {*left_out} == set()
    assert len(images) == len(targets) == 12 - loader.state_dict()["skipped"]  # type: ignore[operator]
    right = [UINT8(Image.open(io.BytesIO(image_file(number))).convert("RGB")) for number in targets.tolist()]
    assert torch.equal(images, torch.stack(right))


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_records_that_cannot_be_read_are_left_out(tmp_path: Path, workers: Any) -> None:
    write_tree(tmp_path / "t", {f"{n:02d}/0.jpg": CUT if n == 3 else image_file(n) for n in range(12)})
    dataset = ImageFolderRecord(tmp_path / "t", UINT8)
    shard = dataset.records_path / "shard-00000.lmdb"
    content, damaged = shard.read_bytes(), dataset.read(7)
    shard.write_bytes(content.replace(damaged[-150:-50], bytes(100)))
    dataset = ImageFolderRecord(dataset.records_path, UINT8)
    with pytest.raises(ImageError):
        list(RecordLoader(dataset, 4, workers=workers))
    loader = RecordLoader(dataset, 4, workers=workers, on_error="skip")
    labels = [batch[1].tolist() for batch in loader]
    assert labels == [[0, 1, 2], [4, 5, 6], [8, 9, 10, 11]]
    assert loader.state_dict()["skipped"] == 2


def test_a_batch_with_no_sample_left(bad: Bad) -> None:
    loader = RecordLoader(Subset(bad.files, [0, 3, 4]), 2, sampler=[0, 0, 1, 2], on_error="skip", num_workers=2)
    batches = iter(loader)
    assert len(next(batches)[1]) == 2
    with pytest.raises(EmptyBatchError, match=r"None of the 2 samples .* The first: FileNotFoundError: .*03/0.jpg"):
        next(batches)
    single = RecordLoader(bad.files, None, on_error="skip", num_workers=1)
    assert len(list(itertools.islice(single, 3))) == 3
    with pytest.raises(EmptyBatchError):
        list(single)


def test_errors_of_the_machine_are_not_left_out(bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(store: Any, index: int) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(stores.Files, "frame", read)
    with pytest.raises(OSError, match="Too many open files"):
        list(RecordLoader(bad.files, 4, on_error="skip"))


def test_the_count_is_in_the_state(bad: Bad, caplog: pytest.LogCaptureFixture) -> None:
    loader = RecordLoader(bad.files, 2, on_error="skip", num_workers=2)
    batches = iter(loader)
    assert [len(next(batches)[1]) for _ in range(3)] == [2, 1, 1]
    state = loader.state_dict()
    assert state["skipped"] == 2
    assert caplog.messages == []
    batches.close()
    assert "left out 2 samples" in caplog.text
    again = RecordLoader(bad.files, 2, on_error="skip")
    again.load_state_dict(state)
    assert [len(labels) for _, labels in again] == [2, 2, 1]
    assert again.state_dict()["skipped"] == 3
    without = RecordLoader(bad.files, 2)
    without.load_state_dict(state)
    assert without.state_dict() == {name: value for name, value in state.items() if name != "skipped"}


def test_what_cannot_be_left_out(root: Path) -> None:
    loader = RecordLoader(MakesSamples(root, UINT8), 4, on_error="skip")
    with pytest.raises(ArgumentError, match="MakesSamples makes its samples itself"):
        next(iter(loader))


@pytest.mark.parametrize("wrap", [lambda dataset: dataset, datasets.wrap_dataset_for_transforms_v2])
def test_detection_records_that_cannot_be_read_are_left_out(tmp_path: Path, wrap: Any) -> None:
    voc.build("2012").write_tree(tmp_path)
    names = [Path(path).name for path in datasets.VOCDetection(tmp_path, "2012", "val").images]
    bad = next(tmp_path.rglob(names[1]))
    bad.write_bytes(bad.read_bytes()[:-200])
    dataset = wrap(
        VOCDetectionRecord(tmp_path, "2012", "val", transforms=v2.Compose([v2.Resize((20, 20)), v2.ToImage()]))
    )
    batches = list(RecordLoader(dataset, 2, collate_fn=list, on_error="skip"))
    assert isinstance(Source(dataset).leaves[0], JointLeaf)
    assert sum(map(len, batches)) == len(names) - 1
    right = [dataset[index][0] for index in range(len(names)) if index != 1]
    assert_same([image for batch in batches for image, _ in batch], right)
