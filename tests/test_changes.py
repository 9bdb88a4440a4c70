"""Raw files that change after their records were made: what is noticed when, for every kind of tree."""

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recordzoo import CIFAR10Record, CUB200Record, ImageFolderRecord, VOCDetectionRecord
from recordzoo.errors import OtherSourceError
from recordzoo.preparing.changes import find_changes
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe
from recordzoo.records.reader import RecordReader
from recordzoo.records.writer import MADE_FROM_FILE
from tests.fakes import cifar as cifar10
from tests.fakes import cub200, folder, lists, voc
from tests.preparing import prepared
from tests.running import run

MOST_COMPARED = 16 * 16  # files that a quick comparison looks at, at most


def overwrite(path: Path, *, longer: bool = True) -> None:
    """Write other bytes into a file, in place: no directory changes."""
    before = path.parent.stat().st_mtime_ns
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data) + b"longer" * longer)
    if not longer:  # within a tick of the clock it might have the same time
        os.utime(path, ns=(1, 1))
    assert path.parent.stat().st_mtime_ns == before


def said(make: Callable[[], object]) -> list[str]:
    """The warnings of a constructor: of each directory and record set the first."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    return [str(warning.message) for warning in caught]


# Any: datasets.
class Raw(NamedTuple):
    """Raw data: how it is written, the first of its files that are changed here, the dataset that is made of it."""

    write: Callable[[Path], object]
    file: str
    make: Callable[[Path], Any]
    top: str = ""

    def made(self, root: Path) -> tuple[Callable[[], Any], Path, str]:
        """Write it; return what constructs the dataset, a file, and its name in messages."""
        self.write(root)
        path = sorted(root.glob(self.file))[0]
        return lambda: self.make(root), path, path.relative_to(root / self.top).as_posix()


def photos(root: Path) -> Path:
    return folder.write_tree(root / "photos")


def birds_with_masks(root: Path) -> None:
    fake = cub200.build()
    fake.write_tree(root)
    fake.write_mask_tree(root)


def of_photos(write: Callable[[Path], object] = photos, **options: Any) -> Raw:
    return Raw(write, "photos/dog/a.jpeg", lambda root: ImageFolderRecord(root / "photos", **options), "photos")


VOC = "VOCdevkit/VOC2012"
TREES = {
    "folder": of_photos(),
    "selection": of_photos(is_valid_file=lambda path: "a.jp" in path, allow_empty=True),
    "variant of a tree": of_photos(variant="16"),
    "variant of records": of_photos(lambda root: ImageFolderRecord(photos(root)), variant="16"),
    "masks": Raw(
        birds_with_masks,
        "segmentations/*/*.png",
        lambda root: CUB200Record(root, split="all", target_type="segmentation"),
    ),
    "voc": Raw(lambda root: voc.build().write_tree(root), f"{VOC}/Annotations/*.xml", VOCDetectionRecord),
    "cifar": Raw(
        lambda root: cifar10.build().write_tree(root / "data"),
        "data/cifar-10-batches-py/data_batch_2",
        lambda root: type("Fake", (CIFAR10Record,), cifar10.lists(cifar10.batches()))(root / "data"),
        "data",
    ),
}


@pytest.mark.parametrize("kind", TREES)
def test_a_file_overwritten_in_place(kind: str, tmp_path: Path) -> None:
    make, path, name = TREES[kind].made(tmp_path)
    reader = RecordReader(make().records_path)
    if "segmentations" in name:
        reader = RecordReader(tmp_path / "cub200.segmentations.records")
    assert said(make) == []
    assert not find_changes(reader, full=True)
    overwrite(path)
    found = find_changes(reader, full=True)
    assert (list(found.found), found.num_compared) == ([f"{name} has another size"], found.num_files)
    (text,) = said(make)
    assert f"{name} has another size. It is used as it is; to rebuild it" in text
    assert text.endswith(" --refresh")
    assert "recordzoo prepare " in text


@pytest.mark.parametrize("kind", ["folder", "voc", "variant of records"])
def test_one_of_the_same_size_and_raw_files_that_were_put_away(kind: str, tmp_path: Path) -> None:
    make, path, name = TREES[kind].made(tmp_path)
    make()
    overwrite(path, longer=False)
    (text,) = said(make)
    assert f"{name} was written to. " in text
    (tmp_path / path.relative_to(tmp_path).parts[0]).rename(tmp_path / "elsewhere")
    assert said(make) == []


@pytest.mark.parametrize("change", ["overwritten", "new", "gone"])
def test_made_again_only_if_changed(change: str, tmp_path: Path) -> None:
    tree = folder.write_tree(tmp_path / "photos")
    path = tree / "dog" / "a.jpeg"
    before = ImageFolderRecord(tree).records_path.stat().st_ino
    for _ in range(2):
        assert ImageFolderRecord(tree, refresh="if-changed").records_path.stat().st_ino == before
    if change == "overwritten":
        path.write_bytes(folder.image_bytes("a.jpeg", 77))
    elif change == "new":
        (tree / "dog" / "new.jpg").write_bytes(folder.image_bytes("new.jpg", 50))
    else:
        path.unlink()
    again = ImageFolderRecord(tree, refresh="if-changed")
    assert again.records_path.stat().st_ino != before
    assert said(lambda: ImageFolderRecord(tree)) == []
    names = [Path(sample).name for sample, _ in again.samples]
    assert ("new.jpg" in names, "a.jpeg" in names) == (change == "new", change != "gone")
    if change == "overwritten":
        assert again.read(names.index("a.jpeg")) == path.read_bytes()


@pytest.mark.parametrize("refresh", [True, "if-changed"])
def test_a_variant_is_made_again_of_the_tree_and_not_of_an_older_set(refresh: Any, tmp_path: Path) -> None:
    tree = photos(tmp_path)
    place = tmp_path / "o r"
    length = len(ImageFolderRecord(tree)) and len(ImageFolderRecord(tree, records_dir=place))
    (tree / "dog" / "new.jpg").write_bytes(folder.image_bytes("new.jpg", 50))
    assert f"prepare {tree} --output '{place}' --refresh" in said(lambda: ImageFolderRecord(tree, records_dir=place))[0]
    for words in (["prepare", tree, "--output", place], ["info", place]):
        assert f"{tree} --output '{place}' --refresh" in run(*words, cwd=tmp_path).stderr
    assert f"{tree} --short-side 16 --refresh" in said(lambda: ImageFolderRecord(tree, variant="16"))[0]
    assert len(ImageFolderRecord(tree, variant="16", refresh=refresh)) == length + 1
    shutil.rmtree(tree)
    assert len(ImageFolderRecord(tree, refresh="if-changed")) == length
    assert len(ImageFolderRecord(tree, variant="16", refresh=True)) == length


def test_a_moved_tree_may_have_other_times(tmp_path: Path) -> None:
    tree = folder.write_tree(tmp_path / "photos")
    ImageFolderRecord(tree)
    (tmp_path / "new").mkdir()
    (tmp_path / "photos.records").rename(tmp_path / "new" / "photos.records")
    shutil.copytree(tree, tmp_path / "new" / "photos", copy_function=shutil.copyfile)
    copied = tmp_path / "new" / "photos"
    assert said(lambda: ImageFolderRecord(copied)) == []
    overwrite(copied / "dog" / "a.jpeg", longer=False)
    (text,) = said(lambda: ImageFolderRecord(copied))
    assert "dog/a.jpeg was written to" in text


def test_lists(tmp_path: Path) -> None:
    lists.write_images(tmp_path)
    path = lists.write_list(tmp_path / "list.txt", lists.plain())
    place = prepared(path)
    before = place.stat().st_ino
    assert prepared(path, refresh="if-changed").stat().st_ino == before
    overwrite(tmp_path / lists.NAMES[2])
    with pytest.raises(OtherSourceError, match=f"is out of date: in .*, {lists.NAMES[2]} has another size"):
        prepared(path)
    result = run("info", place, cwd=tmp_path)
    assert f"{lists.NAMES[2]} has another size" in result.stderr
    assert f"recordzoo prepare {path} --refresh" in result.stderr
    reader = RecordReader(prepared(path, refresh="if-changed"))
    assert reader.read("image", 2) == (tmp_path / lists.NAMES[2]).read_bytes()
    lists.write_list(path, lists.plain()[1:])
    assert len(RecordReader(prepared(path, refresh="if-changed"))) == len(lists.NAMES) - 1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More files than a quick comparison looks at; of a few bytes, which no decoder takes."""
    tree = tmp_path_factory.mktemp("many") / "photos"
    for label in range(10):
        (tree / f"c{label}").mkdir(parents=True)
        for number in range(120):
            (tree / f"c{label}" / f"{number:03d}.jpg").write_bytes(b"%d %d" % (label, number))
    ensure(FolderRecipe(), tree)
    return tree


def test_of_many_files_each_time_others_are_looked_at(many: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(many, tmp_path / "photos")
    reader = RecordReader(shutil.copytree(f"{many}.records", tmp_path / "photos.records"))
    assert find_changes(reader, tree).num_compared == MOST_COMPARED
    assert find_changes(reader, tree, full=True).num_compared == 1200
    assert not find_changes(reader, tree, full=True)
    for path in (tree / "c5").iterdir():
        overwrite(path)
    found = {name for _ in range(40) for name in find_changes(reader, tree).found}
    assert len(found) > 16 * 6  # of 120
    assert len(find_changes(reader, tree, full=True).found) == 120


def test_all_files_in_a_directory_that_was_written_to_are_looked_at(many: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(many, tmp_path / "photos")
    shutil.copytree(f"{many}.records", tmp_path / "photos.records")
    path = tree / "c7" / "077.jpg"
    path.unlink()
    path.write_bytes(b"another one")
    (text,) = said(lambda: ImageFolderRecord(tree))
    assert "c7/077.jpg has another size (" in text
    assert "of 1,200 files were compared)" in text


def forged(count: int, names: list[bytes], base: bytes = b"/") -> bytes:
    ends = [sum(map(len, names[: place + 1])) for place in range(len(names))]
    rows = b"".join((1).to_bytes(8, "little") + (2).to_bytes(8, "little") + end.to_bytes(8, "little") for end in ends)
    numbers = b"".join(number.to_bytes(8, "little") for number in (count, len(base), sum(map(len, names))))
    return b"rzfiles1" + numbers + base + rows + b"".join(names)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, content) for name in (MADE_FROM_FILE, "tree.json") for content in (None, b"", b"{}", b"\xff" * 100)),
        (MADE_FROM_FILE, b"rzfiles1"),
        (MADE_FROM_FILE, bytes(100)),
        (MADE_FROM_FILE, forged(0, [])),
        (MADE_FROM_FILE, forged(1 << 60, [b"a"])),
        (MADE_FROM_FILE, forged(3, [b"../../etc/passwd", b"/etc/passwd", b"a\0b"])),
        (MADE_FROM_FILE, forged(2, [b"\xff\xfe", b""]).replace(b"\2" + bytes(7), bytes(7) + b"\x80")),
        (MADE_FROM_FILE, forged(2, [b"abc", b"d"]).replace(b"\3" + bytes(7), bytes(7) + b"\x40")),  # not in order
        ("tree.json", b"[1]"),
        ("tree.json", b'{"root": "/", "directories": {"../photos": 1}}'),
        ("tree.json", b'{"root": 1, "directories": {"cat": 5}}'),
    ],
)
def test_a_strangers_file_only_helps(name: str, content: bytes | None, tmp_path: Path) -> None:
    tree = folder.write_tree(tmp_path / "photos")
    path = ImageFolderRecord(tree).records_path / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(ImageFolderRecord(tree)) == 13
    find_changes(RecordReader(path.parent), full=True)


@pytest.mark.parametrize("words", [["prepare"], ["info"], ["show"], ["verify"]])
def test_all_commands_say_it(words: list[Any], tmp_path: Path) -> None:
    tree = photos(tmp_path)
    ImageFolderRecord(tree)
    words = [*words, f"{tree}.records" if words == ["verify"] else tree]
    assert "warning" not in run(*words, cwd=tmp_path).stderr
    overwrite(tree / "dog" / "a.jpeg")
    result = run(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert f"{tree}.records is out of date: in {tree}, dog/a.jpeg has another size" in line
    assert line.endswith(f"run: recordzoo prepare {tree} --refresh")


def test_commands_refresh_if_changed(tmp_path: Path) -> None:
    tree = photos(tmp_path)
    ImageFolderRecord(tree)

    def prepared_again(*options: str) -> dict[str, Any]:
        (made,) = json.loads(run("prepare", *options, tree, "--json", cwd=tmp_path).stdout)["record_sets"]
        return made

    def changes_in_json() -> list[list[str]]:
        every = (run(*words, "--json", cwd=tmp_path) for words in (["info", tree], ["verify", f"{tree}.records"]))
        documents = [json.loads(result.stdout) for result in every]
        return [document.get("record_set", document)["changes"] for document in documents]

    assert prepared_again("--refresh-if-changed")["was_ready"] is True
    overwrite(tree / "dog" / "a.jpeg")
    assert changes_in_json() == [["dog/a.jpeg has another size"]] * 2
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (tree / "dog" / name).write_bytes(folder.image_bytes(name, 1))
    result = run("prepare", "--dry-run", tree, cwd=tmp_path)
    assert "but raw files have changed since (dog/a.jpg is new, " in result.stdout
    assert " and 1 more); --refresh rebuilds it" in result.stdout
    (plan,) = json.loads(run("prepare", "--dry-run", tree, "--json", cwd=tmp_path).stdout)["plans"]
    assert (plan["state"], plan["num_changes"]) == ("ready", 4)
    assert "dog/a.jpeg has another size" in plan["changes"]
    assert "dog/a.jpg is new" in prepared_again()["warning"]
    assert f"converts {tree}" in run("prepare", "--dry-run", "--refresh-if-changed", tree, cwd=tmp_path).stdout
    made = prepared_again("--refresh-if-changed")
    assert (made["was_ready"], made["warning"]) == (False, None)
    assert changes_in_json() == [[], []]
