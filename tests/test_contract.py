"""The differential test: everything that a torchvision user does, done to both classes."""

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision import transforms
from torchvision.datasets import wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

import recordzoo
from recordzoo import RecordLoader, RecordReader
from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.loader.source import JointLeaf, Source
from recordzoo.net.download import fetch
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.variant import StoredRecipe
from tests.contract import DECLARED, ROWS, Pair, Row, all_samples, difference, outcome, plain, same_outcome
from tests.fakes.server import FileServer

# torchvision leaves files of several frames open (GIF images among the pets).
pytestmark = [
    pytest.mark.filterwarnings("ignore:Exception ignored in.*/theirs/:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.* moves the image, but not"),  # said by ours alone
]

EVERY = [(row, source) for row in (*ROWS, *DECLARED) for source in row.sources]
CASES = [(row, source) for row, source in EVERY if not row.is_brief]
_built: dict[tuple[object, str], Pair] = {}
_groups: dict[tuple[object, str], int] = {}


def case_id(case: tuple[Row, str]) -> str:
    return f"{case[0].name}-{case[1]}"


def _param(case: tuple[Row, str], *, is_slow: bool = False) -> Any:
    """Let one worker of xdist take all tests of a row, which makes its raw data and record set once."""
    number = _groups.setdefault((case[0].build, case[1]), len(_groups))
    marks = [pytest.mark.xdist_group(f"contract{number}"), *([pytest.mark.slow] if is_slow else [])]
    return pytest.param(case, id=case_id(case), marks=marks)


def _is_slow(row: Row, source: str) -> bool:
    """Declared datasets are compared from trees in samples, attributes and repr; the rest of it only slowly."""
    return source == "tree" and "archive" in row.sources and any(row is each for each in DECLARED)


class Compared:
    """A row with its raw data: constructs both datasets."""

    def __init__(self, row: Row, pair: Pair) -> None:
        self.row, self.pair = row, pair

    def both(self, **kwargs: Any) -> tuple[Any, Any]:
        return self.pair.both(**{**self.row.arguments, **kwargs})

    def assert_same(self, theirs: Any, ours: Any, what: str = "") -> None:
        assert len(theirs) == len(ours), what
        expected, found = all_samples(theirs, self.pair.their_root), all_samples(ours, self.pair.our_root)
        for index, (a, b) in enumerate(zip(expected, found, strict=True)):
            assert self.same(a, b), f"{what} sample {index}{difference(a, b)}"

    def same(self, theirs: Any, ours: Any) -> bool:
        return same_outcome(theirs, ours, self.row.differences)

    def plain(self, theirs: Any, ours: Any) -> tuple[Any, Any]:
        return plain(theirs, self.pair.their_root), plain(ours, self.pair.our_root)

    def outcomes(self, action: Callable[[Any], Any], theirs: Any, ours: Any) -> tuple[Any, Any]:
        return (
            outcome(self.pair.their_root, lambda: action(theirs)),
            outcome(self.pair.our_root, lambda: action(ours)),
        )


@pytest.fixture(params=[_param(case, is_slow=_is_slow(*case)) for case in CASES])
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return _compared(request.param, tmp_path_factory)


@pytest.fixture(params=map(_param, EVERY))
def configured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return _compared(request.param, tmp_path_factory)


def _compared(case: tuple[Row, str], tmp_path_factory: pytest.TempPathFactory) -> Compared:
    row, source = case
    key = (row.build, source)
    if key not in _built:
        _built[key] = row.build(tmp_path_factory.mktemp("raw"), source)
    return Compared(row, _built[key])


def test_samples(configured: Compared) -> None:
    theirs, ours = configured.both()
    assert len(ours) > 0
    configured.assert_same(theirs, ours)
    assert ours.read(0)
    shown = ours._repr_html_()
    assert "<figure " in shown or "holds no images" in shown
    assert not re.search("problem|cannot be shown", shown)
    assert ours._made == {}  # neither taking samples nor a notebook's summary needs the lists


NOT_AT_URLS = {"DatasetFolderRecord": "selects files of a tree"}
AT_URLS = [(row, row.sources[-1]) for row in (*ROWS, *DECLARED) if not row.is_brief]


@pytest.mark.parametrize("case", [_param(case) for case in AT_URLS])
def test_a_root_at_a_url(
    case: tuple[Row, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same samples, through the cache; nothing but the record sets is looked at."""
    monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(tmp_path / "cache"))
    compared = _compared(case, tmp_path_factory)
    _, ours = compared.both()
    root = f"file://{compared.pair.our_root}"
    if (why := NOT_AT_URLS.get(type(ours).__name__)) is not None:
        with pytest.raises(ArgumentError, match=why):
            dataclasses.replace(compared.pair, our_root=root).both(**compared.row.arguments)
        return
    _, there = dataclasses.replace(compared.pair, our_root=root).both(**compared.row.arguments)
    assert len(there) == len(ours)
    for index in range(min(3, len(ours))):
        expected, found = (plain(ds[index], compared.pair.our_root) for ds in (ours, pickle.loads(pickle.dumps(there))))
        assert found == expected
    assert str(there.records_path).startswith("file://")


def test_class_and_signature_are_torchvisions(compared: Compared) -> None:
    theirs, ours = compared.both()
    public = [kind for kind in type(theirs).__mro__ if kind.__module__.startswith("torchvision.")]
    assert isinstance(ours, public[0])
    expected = list(inspect.signature(compared.pair.theirs.__init__).parameters.values())
    found = list(inspect.signature(compared.pair.ours.__init__).parameters.values())
    expected = [parameter for parameter in expected if parameter.kind is not parameter.VAR_KEYWORD]  # ImageNet's
    for a, b in zip(expected, found, strict=False):
        default = None if a.name in compared.row.optional and a.default is a.empty else a.default
        assert (a.name, default, a.kind) == (b.name, b.default, b.kind)
    assert all(b.kind in (b.KEYWORD_ONLY, b.VAR_KEYWORD) for b in found[len(expected) :])
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'no_such_option'"):
        compared.pair.ours(compared.pair.our_root, **compared.row.arguments, no_such_option=1)


MNIST_BEFORE_2018 = {"train_data", "test_data", "train_labels", "test_labels"}  # they warn


def test_attributes_and_repr(configured: Compared) -> None:
    theirs, ours = configured.both()
    names = {name for name in dir(theirs) if not name.startswith("_")} - MNIST_BEFORE_2018
    names -= {*configured.row.handles}
    public = sorted(name for name in names if not callable(getattr(theirs, name)))
    assert {"root", "transform", "transforms", "target_transform"} <= set(public)
    for name in public:
        if name in ("url", "filename", "md5", "tgz_md5", "base_folder", "h5py"):
            assert hasattr(ours, name) or name == "h5py"  # the fake's own
            continue
        a, b = configured.plain(getattr(theirs, name), getattr(ours, name))
        assert a == b, name
        if name != "loader":  # equal to it, and called as it is
            assert type(getattr(ours, name)) is type(getattr(theirs, name)), name
    if hasattr(theirs, "loader"):
        assert ours.loader == theirs.loader
    for kwargs in ({}, {"transform": v2.ToImage()}, {"transform": len, "target_transform": repr}):
        theirs, ours = configured.both(**kwargs)
        a, b = repr(theirs), repr(ours).replace(type(ours).__name__, type(theirs).__name__)
        assert configured.plain(a, b)[0] == configured.plain(a, b)[1]


INDICES = [0, 1, -1, np.int64(1), np.uint8(2), torch.tensor(1), True, 10**6, -(10**6), slice(0, 2), slice(0, 3)]
INDICES += [slice(0, 0), 1.5, None, "a", "", [0], np.array(1), torch.tensor([1]), 1 << 62, -(1 << 62), np.uint64(3)]


# ObjectNet's raw file cannot be read: its fake has the extracted tree.
FROM_RAW_FILES = [row for row in DECLARED if not row.is_brief and not row.build.args[0].tree]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("row", FROM_RAW_FILES, ids=lambda row: row.name)
def test_downloaded_from_a_server(row: Row, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The raw files come from a server, through the real download, and give the same samples."""
    fake, _, kind, folder = row.build.args  # type: ignore[attr-defined]  # a partial
    compared = _compared((row, row.sources[-1]), tmp_path_factory)
    theirs, _ = compared.both()
    root = tmp_path / "ours" / folder
    with FileServer(fake.files) as server:
        files = fake.remote_files(lambda name: f"{server.url}/{name}")
        ours = type(kind.__name__, (kind,), {"raw_files": files})
        if "download" in inspect.signature(kind.__init__).parameters:
            found = ours(root, **{**row.arguments, "download": True})
        else:  # torchvision's class has no such argument
            with pytest.raises(NotPreparedError):
                ours(root, **row.arguments)
            for file in files:
                fetch(file, tmp_path / "ours", dataset=fake.dataset)
            found = ours(root, **row.arguments)
        requested = {request.path for request in server.log}
    assert requested
    assert requested <= set(fake.files)
    compared.pair = dataclasses.replace(compared.pair, our_root=root)
    compared.assert_same(theirs, found)


def test_index(compared: Compared) -> None:
    theirs, ours = compared.both()
    for index in INDICES:
        # torchvision leaves files open: `plain` loads them
        a, b = compared.outcomes(lambda ds, index=index: ds[index], theirs, ours)
        assert compared.same(a, b), f"{index!r}: {a!r} / {b!r}"


def test_transforms_are_read_when_a_sample_is_taken(compared: Compared) -> None:
    def shrink(image: Any) -> Any:
        return np.asarray(image)[:2]

    theirs, ours = compared.both(transform=shrink, target_transform=lambda target: ("target", target))
    compared.assert_same(theirs, ours)
    for ds in (theirs, ours):
        ds.transform = ds.target_transform = None
    compared.assert_same(theirs, ours)
    for ds in (theirs, ours):
        ds.transforms = None
    compared.assert_same(theirs, ours)
    for ds in (theirs, ours):
        ds.transforms = lambda image, target: (target, image)
    compared.assert_same(theirs, ours)


LISTS = ("samples", "imgs", "targets", "labels", "data", "images", "_samples", "_image_files", "_labels")


def test_mutations(compared: Compared) -> None:
    for name, change in compared.row.mutations.items():
        theirs, ours = compared.both()
        a, b = compared.outcomes(change, theirs, ours)
        assert compared.same(a, b), f"{name}: {a!r} / {b!r}"
        compared.assert_same(theirs, ours, name)
        for attribute in LISTS:
            if hasattr(theirs, attribute):
                a, b = compared.plain(getattr(theirs, attribute), getattr(ours, attribute))
                assert a == b, f"{name}: {attribute}"
        # What was changed travels to worker processes and into copies.
        compared.assert_same(theirs, pickle.loads(pickle.dumps(ours)), name)
        compared.assert_same(theirs, copy.copy(ours), name)


def test_bad_arguments(compared: Compared) -> None:
    for kwargs in compared.row.bad_arguments:
        merged = {**compared.row.arguments, **kwargs}
        a = outcome(compared.pair.their_root, lambda m=merged: compared.pair.theirs(compared.pair.their_root, **m))
        b = outcome(compared.pair.our_root, lambda m=merged: compared.pair.ours(compared.pair.our_root, **m))
        assert isinstance(a, Exception), kwargs
        assert isinstance(b, type(a))
        assert str(a) == str(b)


def test_missing_root(compared: Compared, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"  # some of torchvision's classes make their root
    # Others first look for images when they read one.
    a = outcome(theirs, lambda: compared.pair.theirs(theirs, **compared.row.arguments)[0])
    b = outcome(ours, lambda: compared.pair.ours(ours, **compared.row.arguments))
    assert isinstance(a, Exception)
    assert compared.same(a, b), f"{a!r} / {b!r}"
    assert not ours.exists()


def test_subclass_getitem_counts(compared: Compared) -> None:
    datasets = []
    pair = compared.pair
    for kind, root in ((pair.theirs, pair.their_root), (pair.ours, pair.our_root)):

        class Twice(kind):  # type: ignore[misc,valid-type]
            def __getitem__(self, index: int) -> Any:
                first = super().__getitem__(index)
                return index, first, super().__getitem__((index + 1) % len(self))

        Twice.__name__ = kind.__name__  # with which some of torchvision's classes find their folder
        datasets.append(Twice(root, **compared.row.arguments))
    compared.assert_same(*datasets)
    a, b = compared.plain(*(list(DataLoader(ds, 3, collate_fn=list)) for ds in datasets))
    assert a == b


def test_pickle_and_copy(compared: Compared) -> None:
    theirs, ours = compared.both()
    data = pickle.dumps(ours)
    assert len(data) < 2048
    compared.assert_same(theirs, pickle.loads(data))
    for name in ("samples", "targets", "data", "classes", "class_to_idx", "images"):
        getattr(ours, name, None)
    assert len(pickle.dumps(ours)) < 2048  # looking at an attribute does not make the pickle grow
    ours.extra = {"deep": [1, {"x": 2}]}
    for twin in (pickle.loads(pickle.dumps(ours)), copy.copy(ours), copy.deepcopy(ours)):
        assert twin.extra == ours.extra
        compared.assert_same(theirs, twin)
        assert compared.plain(repr(twin), repr(ours))[0] == compared.plain(repr(ours), repr(ours))[0]


def test_v2_wrapper(compared: Compared) -> None:
    both = compared.both(transform=v2.Resize((8, 8)))
    a, b = (outcome(Path(), lambda ds=ds: type(wrap_dataset_for_transforms_v2(ds))) for ds in both)
    if isinstance(a, Exception):
        assert str(a) == str(b).replace("Record.", ".")  # torchvision has none for this dataset
        return
    theirs, ours = map(wrap_dataset_for_transforms_v2, both)
    compared.assert_same(theirs, ours)
    for name in ("classes", "class_to_idx", "targets", "samples", "data", "images"):
        if hasattr(theirs, name):
            a, b = compared.plain(getattr(theirs, name), getattr(ours, name))
            assert a == b, name
    compared.assert_same(theirs, pickle.loads(pickle.dumps(ours)))


MOVED = [v2.ToImage(), v2.Resize((20, 24)), v2.RandomHorizontalFlip(1), v2.ToDtype(torch.float32, scale=True)]


def _takes_pairs(row: Row) -> bool:
    """Of other datasets than torchvision's the argument is keyword-only: see `test_joint`."""
    found = inspect.signature(getattr(recordzoo, f"{row.name.split()[0]}Record")).parameters.get("transforms")
    return found is not None and found.kind is found.POSITIONAL_OR_KEYWORD


PAIRS = [(row, row.sources[0]) for row in (*ROWS, *DECLARED) if _takes_pairs(row)]


@pytest.mark.parametrize("is_wrapped", [False, True], ids=["as it is", "wrapped"])
@pytest.mark.parametrize("case", PAIRS, ids=case_id)
def test_loader_with_transforms_of_image_and_target(
    case: tuple[Row, str], is_wrapped: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The image is decoded and changed by the loader, the target moved by v2: as torchvision's in a DataLoader."""
    compared = _compared(case, tmp_path_factory)
    theirs, ours = compared.both(transforms=v2.Compose(MOVED))
    if is_wrapped:
        try:
            theirs = wrap_dataset_for_transforms_v2(theirs)
        except (RuntimeError, TypeError) as err:  # torchvision's wrapper does not know these targets
            with pytest.raises(type(err)):
                wrap_dataset_for_transforms_v2(ours)
            return
        ours = wrap_dataset_for_transforms_v2(ours)
    assert isinstance(Source(ours).leaves[0], JointLeaf)
    # torchvision's own wrapper fails for some targets.
    a = outcome(compared.pair.their_root, lambda: list(DataLoader(theirs, 4, collate_fn=list)))
    options = {"collate_fn": list, "num_workers": 2, "workers": "threads"}
    b = outcome(compared.pair.our_root, lambda: list(RecordLoader(ours, 4, **options)))
    assert compared.same(a, b), difference(a, b)


def test_subset_concat_loader(compared: Compared) -> None:
    theirs, ours = compared.both()
    order = list(range(len(theirs)))[::-2]
    compared.assert_same(Subset(theirs, order), Subset(ours, order))
    compared.assert_same(ConcatDataset([theirs, theirs]), ConcatDataset([ours, ours]))
    a = list(DataLoader(theirs, 3, collate_fn=list))
    for workers in (0, 1):
        found = list(DataLoader(ours, 3, collate_fn=list, num_workers=workers))
        assert compared.plain(a, found)[0] == compared.plain(a, found)[1]


def test_record_loader(configured: Compared) -> None:
    """Whether it makes the images itself or takes them from the dataset."""
    transform = transforms.Compose([transforms.Resize((16, 16)), transforms.ToTensor()])
    theirs, ours = configured.both(transform=transform)
    loader = RecordLoader(ours, 4, workers="threads" if configured.row.is_brief else "auto")
    a, b = (outcome(Path(), lambda made=made: list(made)) for made in (DataLoader(theirs, 4), loader))
    if isinstance(a, Exception) and "stack expects" in str(a) and "differ in shape" in str(b):
        assert isinstance(b, ArgumentError)  # it names two samples; torch's error names none
    elif isinstance(a, Exception):
        assert type(b) is type(a)  # targets of several sizes, which no batch can be made of
    else:
        assert a == b


CLASSES = {row.name: [each for each in DECLARED if each.build is row.build] for row in DECLARED if not row.is_brief}
NO_VARIANT = r"^There are no variants of|is in pixels of the original images"


@pytest.mark.parametrize("name", CLASSES)
def test_raw_variant(name: str, tmp_path: Path) -> None:
    """The pixels of a variant are what `Resize` makes of the original images, in all classes that have variants."""
    refusals = []
    pair = CLASSES[name][0].build(tmp_path, "archive")
    for row in CLASSES[name]:
        try:
            small = pair.ours(pair.our_root, **row.arguments, variant="8-raw")
        except ArgumentError as err:
            refusals.append(str(err))
            continue
        original = pair.ours(pair.our_root, **row.arguments)
        for _, ours in zip(range(3), small, strict=False):
            assert isinstance(ours[0], Image.Image)
        assert len(small) == len(original)
        expected = transforms.Resize(8)(original[0][0].convert("RGB"))
        assert plain(small[0][0].convert("RGB"), tmp_path) == plain(expected, tmp_path)
        return
    assert refusals
    assert all(re.search(NO_VARIANT, each) for each in refusals), refusals


IN_PIXELS = [
    ("CelebA", {"target_type": ["attr", "landmarks"]}, "target_type 'landmarks'"),
    ("Caltech101", {"target_type": ["annotation", "category"]}, "target_type 'annotation'"),
    ("CocoDetection", {}, "the target"),
    ("Kitti", {}, "the target"),
    ("SBDataset", {"mode": "segmentation"}, "the target"),
    ("StanfordDogs", {"target_type": "boxes"}, "target_type 'boxes'"),
    ("WIDERFace", {"split": "val"}, "the target"),
]


@pytest.mark.parametrize(("name", "arguments", "what"), IN_PIXELS, ids=[name for name, *_ in IN_PIXELS])
def test_targets_in_pixels_are_refused_with_smaller_images(
    name: str, arguments: dict[str, Any], what: str, tmp_path: Path
) -> None:
    pair = CLASSES[name][0].build(tmp_path, "archive")
    arguments = {**CLASSES[name][0].arguments, **arguments}
    before = sorted(tmp_path.rglob("*"))
    message = f"^{what} is in pixels of the original images, and would not fit the variant '8'"
    with pytest.raises(ArgumentError, match=message):
        pair.ours(pair.our_root, **arguments, variant="8")
    assert sorted(tmp_path.rglob("*")) == before  # it was said before anything was made
    original = pair.ours(pair.our_root, **arguments)
    small = ensure(StoredRecipe(RecordReader(original.records_path)), original.records_path, variant="8")
    with pytest.raises(ArgumentError, match=message):
        pair.ours(small, **arguments)
    full = pair.ours(pair.our_root, **arguments, variant="full-raw")  # of the same size
    assert plain(full[0][1], pair.our_root) == plain(original[0][1], pair.our_root)
