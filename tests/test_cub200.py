"""CUB200Record beyond the contract: masks apart from the images, files that are missing or damaged, roots."""

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.datasets import ImageFolder

from recordzoo import ImageFolderRecord
from recordzoo.datasets.cub200 import CUB200Record
from recordzoo.errors import NotPreparedError, OtherSourceError, PrepareError, RecordError, RecordZooError, SourceError
from recordzoo.records.reader import RecordReader
from tests.contract import CUB200Record as Faked
from tests.contract import outcome, same_outcome
from tests.fakes import cub200
from tests.fakes.folder import write_tree
from tests.fakes.server import FileServer

FAKE = cub200.build()
FILES = {
    "bbox": "CUB_200_2011/bounding_boxes.txt",
    "parts": "CUB_200_2011/parts/part_locs.txt",
    "attributes": "CUB_200_2011/attributes/image_attribute_labels.txt",
}


def open_tree(root: Path, without: tuple[str, ...] = (), files: dict[str, bytes] | None = None, **options):
    """Lay out an extracted tree, some files left out or replaced, and open it."""
    write_tree(FAKE.write_tree(root, without), files or {})
    return CUB200Record(root, **{"split": "all", **options})


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cub200.cub200.write_archive(tmp_path_factory.mktemp("archives"))


@pytest.fixture(scope="module")
def birds(archives: Path) -> CUB200Record:
    return Faked(archives, split="all", target_type=["category", "bbox", "attributes", "segmentation"])


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    """What torchvision shows of the extracted archive."""
    return ImageFolder(FAKE.write_tree(tmp_path_factory.mktemp("plain")) / "CUB_200_2011/images")


@pytest.mark.parametrize("form", ["archive", "tree"])
def test_masks_are_prepared_only_when_asked_for(form: str, tmp_path: Path) -> None:
    (cub200.cub200.write_archive if form == "archive" else cub200.cub200.write_tree)(tmp_path)
    Faked(tmp_path)
    masks = tmp_path / "cub200.segmentations.records"
    assert not masks.exists()
    image, mask = Faked(tmp_path, target_type="segmentation")[0]
    assert image.size == mask.size
    assert RecordReader(masks).names[0] == RecordReader(tmp_path / "cub200.records").names[0]


def test_masks_lie_beside_a_record_set_elsewhere(archives: Path, tmp_path: Path) -> None:
    Faked(archives, target_type="segmentation", records_dir=tmp_path / "birds.records")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["birds.records", "birds.segmentations.records"]
    given = Faked(tmp_path / "birds.records", target_type="segmentation", split="test")
    assert given[0][1].mode == "L"
    assert str(given.root) == str(tmp_path / "birds.records")


def test_an_image_without_a_mask(tmp_path: Path) -> None:
    FAKE.write_mask_tree(tmp_path)
    gone = sorted(FAKE.masks)[3]
    (tmp_path / gone).unlink()
    dataset = open_tree(tmp_path, target_type="segmentation")
    assert dataset[2][1].size == dataset[2][0].size
    assert dataset[4][1].size == dataset[4][0].size
    with pytest.raises(RecordError, match=r"has no mask"):
        dataset[3]


def test_masks_of_other_images_are_refused(tmp_path: Path) -> None:
    other = cub200.build(seed=5)
    other.write_tree(tmp_path / "there")
    other.write_mask_tree(tmp_path / "there")
    CUB200Record(tmp_path / "there", target_type="segmentation")
    (tmp_path / "there/cub200.segmentations.records").rename(tmp_path / "cub200.segmentations.records")
    with pytest.raises(OtherSourceError, match="belong to other images"):
        open_tree(tmp_path, target_type="segmentation")


def test_masks_that_belong_to_nothing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="none of the 1 masks"):
        open_tree(tmp_path, (), {"segmentations/x/y.png": b"a mask"}, target_type="segmentation")


@pytest.mark.parametrize("kind", FILES)
def test_an_absent_file_disables_its_target_only(kind: str, tmp_path: Path) -> None:
    rest = [other for other in FILES if other != kind]
    assert open_tree(tmp_path, (FILES[kind],), target_type=["category", *rest])[0][1][0] == 0
    with pytest.raises(NotPreparedError, match=FILES[kind]) as caught:
        CUB200Record(tmp_path, target_type=kind)
    assert isinstance(caught.value, FileNotFoundError)


def test_without_the_split_file_there_is_only_all(tmp_path: Path) -> None:
    assert len(open_tree(tmp_path, ("CUB_200_2011/train_test_split.txt",))) == 12
    with pytest.raises(NotPreparedError, match=r"no split 'train': CUB_200_2011/train_test_split\.txt or"):
        CUB200Record(tmp_path)


def test_images_alone_are_a_dataset(tmp_path: Path, plain: ImageFolder) -> None:
    lists = tuple(name for name in FAKE.files if not name.endswith(".jpg"))
    with pytest.raises(PrepareError, match="has 3 class folders, and the dataset has 200 classes: labels would be"):
        open_tree(tmp_path, lists)
    dataset = open_tree(tmp_path, lists, incomplete=True)
    assert RecordReader(dataset.records_path).manifest.metadata["incomplete"] == "has 12 images, not 11,788."
    assert dataset.targets == plain.targets
    assert dataset.attribute_names == dataset.part_names == []
    with pytest.raises(NotPreparedError, match=r"images\.txt"):
        _ = dataset.image_ids


def test_attribute_names_where_the_readme_says_they_are(tmp_path: Path) -> None:
    moved = {"CUB_200_2011/attributes/attributes.txt": FAKE.files["attributes.txt"]}
    assert open_tree(tmp_path, ("attributes.txt",), moved).attribute_names == list(cub200.ATTRIBUTE_NAMES)


def test_of_two_lists_of_attribute_names_the_one_beside_the_folder_counts(tmp_path: Path) -> None:
    other = {"CUB_200_2011/attributes/attributes.txt": FAKE.files["attributes.txt"].replace(b" ", b" other_")}
    assert open_tree(tmp_path, (), other).attribute_names == list(cub200.ATTRIBUTE_NAMES)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        (FILES["bbox"], lambda data: data[: len(data) // 2], "not complete|not a table"),
        (FILES["bbox"], lambda data: data.replace(b"3 ", b"99 ", 1), "has no image with the number 99"),
        (FILES["bbox"], lambda data: b"1 2 three 4 5\n", "not a table of 5 or more numbers"),
        (FILES["bbox"], lambda data: b"", "is empty"),
        (FILES["parts"], lambda data: b"".join(data.splitlines(True)[:-1]), "lacks 1 row, the first of image 12"),
        (FILES["parts"], lambda data: data + b"1 16 0 0 0\n", r"the second column goes from 1 to 16; expected 1 to 15"),
        ("CUB_200_2011/images.txt", lambda data: b"one " + data, "line 1: expected an integer, found 'one'"),
        ("CUB_200_2011/images.txt", lambda data: data.replace(b"2 ", b"1 ", 1), "have one number"),
        ("CUB_200_2011/parts/parts.txt", lambda data: data.replace(b"2 ", b"44 ", 1), "not numbered from 1 to 15"),
    ],
)
def test_a_broken_annotation_file_is_an_error(file: str, damage, message: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        open_tree(tmp_path, (), {file: damage(FAKE.files[file])})
    assert file in str(caught.value)


def test_images_and_their_list_disagree(tmp_path: Path) -> None:
    gone, extra = FAKE.images[5], "001.Black_footed_Albatross/new.jpg"
    with pytest.raises(SourceError, match=f"1 is not in the raw data: {gone}"):
        open_tree(tmp_path / "less", (f"{cub200.IMAGES}/{gone}",))
    assert not (tmp_path / "less" / "cub200.records").exists()
    with pytest.raises(SourceError, match=rf"1 image is .* not listed .*: {extra}"):
        open_tree(tmp_path / "more", (), {f"{cub200.IMAGES}/{extra}": FAKE.files[f"{cub200.IMAGES}/{gone}"]})


def test_a_skipped_image_does_not_move_the_others(tmp_path: Path, birds: CUB200Record) -> None:
    broken = f"CUB_200_2011/images/{FAKE.images[5]}"
    dataset = open_tree(tmp_path, (), {broken: b"no picture"}, on_error="skip", target_type=["bbox", "attributes"])
    assert len(dataset) == 11
    kept = [i for i, image_id in enumerate(birds.image_ids) if image_id != 5]
    assert dataset.image_ids.tolist() == birds.image_ids[kept].tolist()
    for i, position in enumerate(kept):
        for mine, its in zip(dataset[i][1], birds[position][1][1:3], strict=True):
            assert torch.equal(mine, its)


def test_assigned_samples(archives: Path, plain: ImageFolder) -> None:
    dataset = Faked(archives, split="all", target_type=["category", "bbox"])
    box = dataset[3][1][1]
    dataset.samples = [(dataset.samples[3][0], 77)]
    image, (category, found) = dataset[0]
    assert (category, found.tolist()) == (77, box.tolist())
    assert image.tobytes() == plain[3][0].tobytes()
    dataset.samples = [(plain.samples[0][0], 1)]  # a file of the user's own
    with pytest.raises(LookupError, match="only its category is known"):
        dataset[0]


def test_is_valid_file_selects(archives: Path) -> None:
    dataset = Faked(archives, split="all", target_type="bbox", is_valid_file=lambda path: "_0001_" not in path)
    lines = FAKE.files[FILES["bbox"]].decode().splitlines()
    by_id = {int(row[0]): [float(value) for value in row[1:]] for row in map(str.split, lines)}
    assert [dataset[i][1].tolist() for i in range(9)] == [by_id[image_id] for image_id in dataset.image_ids]
    assert len(dataset) == len(dataset.image_ids) == 9


def test_download_fetches_masks_only_when_asked_for(tmp_path: Path) -> None:
    with FileServer(cub200.cub200.files) as server:

        class Record(CUB200Record):
            raw_files = cub200.cub200.remote_files(lambda name: f"{server.url}/{name}")

        Record(tmp_path, download=True)
        assert {request.path.lstrip("/") for request in server.log} == {cub200.ARCHIVE}
        assert Record(tmp_path, download=True, target_type="segmentation")[0][1].mode == "L"
        assert {request.path.lstrip("/") for request in server.log} == set(cub200.cub200.files)


def test_masks_at_a_url(birds: CUB200Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(tmp_path))
    _, mask = CUB200Record(f"file://{birds.records_path}", split="all", target_type="segmentation")[0]
    assert np.array_equal(mask, birds[0][1][-1])


def test_roots_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
    for root in ("missing", "file", "file/below"):
        for download in (False, True):
            with pytest.raises(RecordZooError, match=str(tmp_path / root.partition("/")[0])):
                CUB200Record(root, download=download)
        theirs, ours = (outcome(Path(), functools.partial(kind, root)) for kind in (ImageFolder, ImageFolderRecord))
        assert same_outcome(theirs, ours)
    assert (tmp_path / "file").read_bytes() == b"x"
