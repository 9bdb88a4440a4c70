"""ImageFolderRecord and DatasetFolderRecord against torchvision's: random trees, selections, changed trees, loaders."""

import functools
import os
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import DatasetFolder, ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader, pil_loader

import recordzoo
from recordzoo import DatasetFolderRecord, ImageFolderRecord
from recordzoo.errors import ArgumentError, FolderError, OtherSourceError, SourceError
from recordzoo.preparing import changes
from recordzoo.recipes.declared import IMAGE_ENDINGS
from tests.contract import outcome, read_bytes
from tests.fakes import cub200, folder
from tests.fakes.folder import image_bytes, write_tree
from tests.running import run


def assert_same(theirs: ImageFolder, ours: ImageFolderRecord) -> None:
    assert list(ours.samples) == ours.samples == theirs.samples
    assert ours.imgs is ours.samples
    assert ours.targets == theirs.targets
    assert (ours.classes, ours.class_to_idx) == (theirs.classes, theirs.class_to_idx)
    assert (ours.root, ours.extensions) == (theirs.root, theirs.extensions)
    assert ours.loader == theirs.loader
    assert repr(ours) == repr(theirs).replace(type(theirs).__name__, type(ours).__name__, 1)
    for index in range(len(theirs)):
        (a, label), (b, found) = theirs[index], ours[index]
        assert (a.mode, a.size, a.tobytes(), label) == (b.mode, b.size, b.tobytes(), found)
        assert ours.read(index) == Path(theirs.samples[index][0]).read_bytes()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "photos")


@pytest.fixture
def gone(tree: Path, tmp_path: Path) -> Path:
    """A tree that was converted and moved away; it is at `elsewhere` now."""
    ImageFolderRecord(tree)
    tree.rename(tmp_path / "elsewhere")
    return tree


@pytest.fixture(autouse=True)
def _forget_warnings() -> Iterator[None]:
    yield
    changes._warned.clear()


NAMES = st.sampled_from(["a", "b", "B", "a-b", "a b", "ä", ".h", "a.b", "10", "9", "日本", "~", "A"])
FILES = st.sampled_from(
    ["1.jpg", "2.PNG", "10.jpg", ".x.png", "n.txt", "é.bmp", "noending", "c.jpg.txt", "-.ppm", "Z.Jpg"]
)
PATHS = st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=3), FILES), max_size=10)
SELECTIONS: dict[str, Callable[[str], bool] | None] = {
    "default": None,
    "jpg": lambda path: path.endswith(".jpg"),
    "not in b": lambda path: "/b/" not in path and path.lower().endswith(IMG_EXTENSIONS),
    "none": lambda path: False,
    "hidden": lambda path: os.path.basename(path).startswith(".") and path.endswith("png"),
}


@given(
    paths=PATHS,
    empty=st.lists(st.lists(NAMES, min_size=1, max_size=2), max_size=2),
    selections=st.lists(st.sampled_from(sorted(SELECTIONS)), min_size=1, max_size=3),
    allow_empty=st.booleans(),
    remove=st.booleans(),
)
@example(paths=[(["a"], "1.jpg")], empty=[], selections=["hidden", "default", "jpg"], allow_empty=True, remove=True)
@example(paths=[], empty=[], selections=["default"], allow_empty=False, remove=False)
@example(paths=[], empty=[["a"]], selections=["default"], allow_empty=True, remove=False)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_trees(
    tmp_path_factory: pytest.TempPathFactory,
    paths: list[tuple[list[str], str]],
    empty: list[list[str]],
    selections: list[str],
    allow_empty: bool,
    remove: bool,
) -> None:
    root = tmp_path_factory.mktemp("random") / "tree"
    root.mkdir()
    for number, (folders, file) in enumerate(paths):
        place = root.joinpath(*folders)
        place.mkdir(parents=True, exist_ok=True)
        (place / file).write_bytes(image_bytes(file, number))
    for folders in empty:
        root.joinpath(*folders).mkdir(parents=True, exist_ok=True)
    for selection in selections:  # one after another over the same tree, so that views and sets of their own mix
        is_valid_file = SELECTIONS[selection]

        def make(kind: Any, is_valid_file: Any = is_valid_file) -> Any:
            return kind(root, is_valid_file=is_valid_file, allow_empty=allow_empty)

        try:
            theirs = make(ImageFolder)
        except FileNotFoundError as err:
            found = outcome(root, functools.partial(make, ImageFolderRecord))
            assert isinstance(found, FolderError)
            assert str(found) == str(err)  # noqa: PT017 - whether torchvision raises depends on the tree
            continue
        assert_same(theirs, make(ImageFolderRecord))
        assert_same(theirs, make(ImageFolderRecord))  # opened, not made
        if remove:
            expected = [(image.tobytes(), label) for image, label in theirs]
            root.rename(root.with_name("away"))
            ours = make(ImageFolderRecord)
            assert ours.samples == theirs.samples
            assert [(image.tobytes(), label) for image, label in ours] == expected
            root.with_name("away").rename(root)


def test_endings_are_torchvisions() -> None:
    assert IMAGE_ENDINGS == IMG_EXTENSIONS


@pytest.mark.parametrize("spelling", ["{}/photos/", "photos/../photos", "~/photos", ".", "..", "{}/links/photos"])
def test_root_spellings(tree: Path, monkeypatch: pytest.MonkeyPatch, spelling: str) -> None:
    here = {".": tree, "..": tree / "cat"}.get(spelling, tree.parent)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tree.parent))
    if spelling.endswith("links/photos"):
        folder.link(tree, tree.parent / "links" / "photos")
    root = spelling.format(tree.parent)
    for command in ("prepare", "verify"):
        assert run(command, root, cwd=here).returncode == 0
    assert_same(ImageFolder(root), ImageFolderRecord(root))
    assert list(tree.parent.glob("*.records")) == [tree.with_name("photos.records")]


def test_links_inside(tree: Path, tmp_path: Path) -> None:
    other = write_tree(
        tmp_path / "other", {"x/1.jpg": image_bytes("1.jpg", 1), "x/deep/2.png": image_bytes("2.png", 2)}
    )
    folder.link(other / "x", tree / "linked class")
    folder.link(other / "x" / "deep", tree / "cat" / "linked folder")
    folder.link(other / "x" / "1.jpg", tree / "dog" / "linked.jpg")
    assert_same(ImageFolder(tree), ImageFolderRecord(tree))


def test_names_that_are_not_utf8(tree: Path) -> None:
    os.makedirs(os.fsencode(tree) + b"/d\xff")
    with open(os.fsencode(tree) + b"/d\xff/\xfe.jpg", "wb") as file:
        file.write(image_bytes("1.jpg", 1))
    assert_same(ImageFolder(tree), ImageFolderRecord(tree))
    assert_same(ImageFolder(tree), ImageFolderRecord(tree))


def test_record_set_as_root(gone: Path) -> None:
    records = gone.with_name("photos.records")
    ours = ImageFolderRecord(records)
    theirs = ImageFolder(gone.with_name("elsewhere"))
    assert [label for _, label in ours.samples] == theirs.targets
    assert ours[0][0].tobytes() == theirs[0][0].tobytes()
    assert ours.samples[0][0] == str(records / "Zebra" / "x.jpg")
    some = ImageFolderRecord(records, is_valid_file=lambda path: path.endswith(".jpg"), allow_empty=True)
    assert len(some) == sum(path.endswith(".jpg") for path, _ in theirs.samples)


def test_a_manifest_of_the_users_own(tree: Path, tmp_path: Path) -> None:
    for place in (tree, tmp_path):
        (place / "manifest.json").write_text('{"files": []}')
    assert_same(ImageFolder(tree), ImageFolderRecord(tree))
    assert_same(ImageFolder(tree), ImageFolderRecord(tree))  # opened, not made
    assert_same(ImageFolder(tree, is_valid_file=is_jpg), ImageFolderRecord(tree, is_valid_file=is_jpg))


def test_a_set_of_other_files_of_the_tree_is_not_taken_for_the_tree(tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "some.records"
    ImageFolderRecord(tree, is_valid_file=is_jpg, allow_empty=True, records_dir=place)
    with pytest.raises(OtherSourceError, match="holds another selection of the files"):
        recordzoo.prepare(tree, output=place, allow_empty=True)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_a_transform_comes_as_it_is(tree: Path, workers: int) -> None:
    dataset = ImageFolderRecord(tree, transform=str, target_transform={0: 0}.__getitem__)
    first = ImageFolder(tree).targets.index(1)
    with pytest.raises(KeyError, match=r"\A1\Z") as alone:
        dataset[first]
    assert not hasattr(alone.value, "__notes__")
    with pytest.raises(KeyError) as caught:
        list(DataLoader(dataset, batch_size=3, num_workers=workers))
    # torch raises a copy of a worker's error, whose text is the worker's traceback.
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert f"while taking sample {first} of {tree}.records" in told


def is_jpg(path: str) -> bool:
    return path.endswith(".jpg")


def is_dog(path: str) -> bool:
    return "/dog/" in path and path.lower().endswith(IMAGE_ENDINGS)


def is_text(path: str) -> bool:
    return path.endswith(".txt")


def test_a_selection_of_other_files_has_records_of_its_own(tree: Path, tmp_path: Path) -> None:
    ImageFolderRecord(tree)
    for name in ("dog/d.txt", "Zebra/z.txt", "cat/notes.txt"):
        (tree / name).write_bytes(image_bytes("1.png", 7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = ImageFolderRecord(tree, is_valid_file=is_text)
    assert ours.records_path.name.startswith("photos-")
    theirs = ImageFolder(tree, is_valid_file=is_text)
    assert_same(theirs, ours)
    assert ImageFolderRecord(tree, is_valid_file=is_text).records_path == ours.records_path
    (tree / "dog" / "e.txt").write_bytes(image_bytes("1.png", 8))
    more = ImageFolderRecord(tree, is_valid_file=is_text)
    assert more.records_path != ours.records_path
    assert_same(ImageFolder(tree, is_valid_file=is_text), more)


def test_a_selection_is_refreshed_on_its_own_unless_only_what_changed_is(tree: Path, tmp_path: Path) -> None:
    whole = ImageFolderRecord(tree).records_path
    assert ImageFolderRecord(tree, is_valid_file=is_jpg, refresh="if-changed").records_path == whole
    own = ImageFolderRecord(tree, is_valid_file=is_jpg, refresh=True)
    assert own.records_path.name.startswith("photos-")
    given = ImageFolderRecord(tree, is_valid_file=is_jpg, records_dir=tmp_path / "given", refresh="if-changed")
    for dataset in (own, given):
        assert_same(ImageFolder(tree, is_valid_file=is_jpg), dataset)


def test_a_selection_does_not_pass_for_the_whole(tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "r"
    ImageFolderRecord(tree, is_valid_file=is_jpg, records_dir=place)
    with pytest.raises(OtherSourceError, match="a selection"):
        ImageFolderRecord(tree, records_dir=place)
    with pytest.raises(OtherSourceError, match="does not hold all"):
        ImageFolderRecord(
            tree, is_valid_file=lambda path: path.lower().endswith("png"), allow_empty=True, records_dir=place
        )


class TwoClasses(ImageFolder):
    def find_classes(self, directory: str | Path) -> tuple[list[str], dict[str, int]]:
        classes, _ = super().find_classes(directory)
        return [name for name in classes if name != "dog"], {"cat": 5, "Zebra": 2}


class TwoClassesRecord(ImageFolderRecord):
    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
        classes, _ = super().find_classes(directory)
        return [name for name in classes if name != "dog"], {"cat": 5, "Zebra": 2}


@pytest.mark.parametrize("stored", [True, False])
def test_overridden_find_classes(tree: Path, stored: bool) -> None:
    if stored:
        ImageFolderRecord(tree)
    theirs, ours = TwoClasses(tree), TwoClassesRecord(tree)
    assert_same(theirs, ours)
    assert_same(theirs, pickle.loads(pickle.dumps(ours)))
    expected = [(image.tobytes(), label) for image, label in theirs]
    tree.rename(tree.with_name("elsewhere"))
    ours = TwoClassesRecord(tree)
    assert (ours.samples, ours.classes) == (theirs.samples, theirs.classes)
    assert [(image.tobytes(), label) for image, label in ours] == expected


def test_overridden_make_dataset(tree: Path) -> None:
    def make_dataset(directory: str, class_to_idx: dict[str, int], **_: Any) -> list[tuple[str, int]]:
        paths = [os.path.join(directory, name) for name in ("dog/b.bmp", "cat/2.PNG", "dog/b.bmp")]
        return [(path, -number) for number, path in enumerate(paths)]

    theirs = type("Theirs", (ImageFolder,), {"make_dataset": staticmethod(make_dataset)})(tree)
    ours = type("Ours", (ImageFolderRecord,), {"make_dataset": staticmethod(make_dataset)})(tree)
    assert_same(theirs, ours)


def path_and_bytes(path: str) -> tuple[str, bytes]:
    return path, Path(path).read_bytes()


def test_a_loader_of_ones_own(tree: Path) -> None:
    theirs = ImageFolder(tree, loader=path_and_bytes)
    ours = ImageFolderRecord(tree, loader=path_and_bytes)
    assert list(ours) == list(theirs)
    assert (ours.loader, hash(ours.loader)) == (path_and_bytes, hash(path_and_bytes))
    assert ours.loader != pil_loader
    assert pickle.loads(pickle.dumps(ours)).loader == path_and_bytes


def test_a_loader_of_ones_own_without_the_tree(gone: Path) -> None:
    theirs = ImageFolder(gone.with_name("elsewhere"), loader=path_and_bytes)
    ours = ImageFolderRecord(gone, loader=path_and_bytes)
    for ((a, data), label), ((b, found), other) in zip(theirs, ours, strict=True):
        assert (data, label) == (found, other)
        assert os.path.basename(a) == os.path.basename(b)
        assert not os.path.exists(b)  # it was there for the time of the call
        assert not os.path.exists(os.path.dirname(b))


def test_a_loader_that_reads_later(gone: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        image = ImageFolderRecord(gone, loader=Image.open)[0][0]
        assert image.convert("RGB").tobytes() == ImageFolderRecord(gone)[0][0].tobytes()
        image.close()


def test_loader_of_other_paths(gone: Path) -> None:
    ours = ImageFolderRecord(gone)
    other = gone.with_name("elsewhere") / "dog" / "a.jpeg"
    assert ours.loader(str(other)).tobytes() == default_loader(other).tobytes()
    assert ours.loader(gone / "dog" / "a.jpeg").tobytes() == default_loader(other).tobytes()
    with pytest.raises(FileNotFoundError):
        ours.loader(str(gone / "dog" / "no.jpeg"))
    ours.samples = [(str(other), 3), (str(gone / "cat" / "10.png"), 4)]
    assert [label for _, label in ours] == [3, 4]


class Pairs(ImageFolderRecord):
    def __getitem__(self, index: Any) -> Any:
        return tuple(super(Pairs, self).__getitem__(one)[1] for one in index)


def test_a_subclass_may_take_other_indices(tree: Path) -> None:
    labels = ImageFolderRecord(tree).targets
    assert Pairs(tree).__getitems__([(0, 1), (5, 2)]) == [(labels[0], labels[1]), (labels[5], labels[2])]


def test_assigned_loader(gone: Path) -> None:
    ours = ImageFolderRecord(gone)
    ours.loader = path_and_bytes
    assert ours[2][0][1] == ours.read(2)
    ours.loader = ours.loader
    assert ours.loader == path_and_bytes


CHANGES: list[tuple[Callable[[Path], object], str]] = [
    (lambda tree: (tree / "dog" / "new.jpg").write_bytes(image_bytes("new.jpg", 50)), "dog/new.jpg is new"),
    (lambda tree: (tree / "ape").mkdir(), "ape/ is new"),
    (lambda tree: shutil.rmtree(tree / "dog"), "dog/ is gone"),
    (lambda tree: (tree / "dog/b.bmp").rename(tree / "dog/c.bmp"), "dog/c.bmp is new, dog/b.bmp is gone"),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_changed_tree(tree: Path, change: Callable[[Path], object], expected: str) -> None:
    before = list(ImageFolderRecord(tree).samples)
    change(tree)
    with pytest.warns(UserWarning, match=expected) as caught:
        ours = ImageFolderRecord(tree)
    assert "--refresh" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert ours.samples == before
    ImageFolderRecord(tree)  # said once


def test_files_that_are_no_images_never_matter(tree: Path) -> None:
    os.symlink("nobody@nowhere.1:2", tree / "dog" / ".#lock")
    os.symlink("nowhere", tree / "loose.jpg")  # of no class
    assert_same(ImageFolder(tree), ImageFolderRecord(tree))
    (tree / "cat" / "readme.md").write_text("no image")
    (tree / "top.jpg").write_bytes(b"")
    os.utime(tree / "dog")
    ImageFolderRecord(tree)


def test_records_of_another_tree(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="where it would be a class"):
        ImageFolderRecord(tree, records_dir=tree / "r")
    assert not list(tree.glob("r*"))
    place = tmp_path / "r"
    ImageFolderRecord(tree, records_dir=place)
    copied = tmp_path / "copy"
    shutil.copytree(tree, copied)
    dogs: dict[str, Any] = {"is_valid_file": is_dog, "allow_empty": True}
    ImageFolderRecord(copied, records_dir=place)  # the same files
    assert len(ImageFolderRecord(copied, records_dir=place, **dogs)) > 0
    (copied / "dog" / "a.jpeg").write_bytes(image_bytes("a.jpeg", 77))
    for options in ({}, dogs):
        with pytest.raises(OtherSourceError, match=r"dog/a\.jpeg has another size"):
            ImageFolderRecord(copied, records_dir=place, **options)
    other = write_tree(tmp_path / "other", {"cat/1.jpg": image_bytes("1.jpg", 1), "dog/2.jpg": image_bytes("2.jpg", 1)})
    with pytest.raises(OtherSourceError, match="holds the records of"):
        ImageFolderRecord(other, records_dir=place)
    birds = recordzoo.CUB200Record(cub200.build().write_tree(tmp_path)).records_path
    with pytest.raises(OtherSourceError, match=r"of cub200, not of the tree .* Pass it as root to open"):
        ImageFolderRecord(other, records_dir=birds)


def test_a_dangling_image_is_said_when_preparing(tree: Path) -> None:
    os.symlink("nowhere", tree / "dog" / "dangling.jpg")
    with pytest.raises(SourceError, match=r"dog/dangling\.jpg"):
        ImageFolderRecord(tree)


def test_empty_mount_point(gone: Path) -> None:
    gone.mkdir()
    assert len(ImageFolderRecord(gone)) == 13
    assert len(ImageFolderRecord(gone, is_valid_file=lambda path: True)) == 13


@pytest.fixture
def things(tmp_path: Path) -> Path:
    return folder.write_dataset(tmp_path / "things")


def test_arrays_of_a_tree_that_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "arrays"
    for name in ("up", "down"):
        (root / name).mkdir(parents=True)
        np.save(root / name / "0.npy", np.full((2, 3), len(name)))
    DatasetFolderRecord(root, np.load, (".npy",))
    root.rename(tmp_path / "elsewhere")
    ours = DatasetFolderRecord(root, np.load, (".npy",))
    assert [(array.tolist(), label) for array, label in ours] == [([[4] * 3] * 2, 0), ([[2] * 3] * 2, 1)]
    assert ours.samples[0] == (str(root / "down" / "0.npy"), 0)


def test_images_are_those_of_the_whole_tree(things: Path) -> None:
    whole = ImageFolderRecord(things)
    assert DatasetFolderRecord(things, default_loader, IMG_EXTENSIONS).records_path == whole.records_path
    others = DatasetFolderRecord(things, read_bytes, (".txt",))
    assert others.records_path != whole.records_path
    assert DatasetFolderRecord(others.records_path, read_bytes, (".txt",))[0] == others[0]


def test_empty_classes_are_said_in_torchvisions_words(things: Path, tmp_path: Path) -> None:
    for extensions in (".scan", (".scan", ".png")):
        texts = []
        for kind in (DatasetFolder, DatasetFolderRecord):
            with pytest.raises(FileNotFoundError) as caught:
                kind(things, read_bytes, extensions)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
        DatasetFolderRecord(things, read_bytes, extensions, allow_empty=True)
    things.rename(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match=r"^Found no valid file for the classes d\. .* are: \.scan$"):
        DatasetFolderRecord(things, read_bytes, ".scan")
