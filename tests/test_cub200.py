import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.datasets import ImageFolder

from recordzoo import ImageFolderRecord
from recordzoo.datasets.cub200 import CUB200Record
from recordzoo.errors import (
    ArgumentError,
    NotPreparedError,
    OtherSourceError,
    PrepareError,
    RecordError,
    RecordZooError,
    SourceError,
)
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.reader import RecordReader
from tests.fakes import cub200
from tests.fakes.server import FileServer

FAKE = cub200.build()
ALL_TYPES = ["category", "bbox", "parts", "attributes", "segmentation"]
FILES = {
    "bbox": "CUB_200_2011/bounding_boxes.txt",
    "parts": "CUB_200_2011/parts/part_locs.txt",
    "attributes": "CUB_200_2011/attributes/image_attribute_labels.txt",
}


def record_class(folder: Path) -> type[CUB200Record]:
    """Make a class whose raw files are the fake archives in a folder."""
    files = cub200.remote_files(folder)
    if (folder / cub200.MASK_ARCHIVE).exists():
        files += cub200.remote_files(folder, part="segmentations")

    class Record(CUB200Record):
        raw_files = files if len(files) == 2 else (*files, *dataset_recipe("cub200", "segmentations").raw_files)

    return Record


def open_tree(root: Path, without: tuple[str, ...] = (), files: dict[str, bytes] | None = None, **options):
    """Lay out an extracted tree, some files left out or replaced, and open it."""
    FAKE.write_tree(root, without)
    for name, data in (files or {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return CUB200Record(root, **{"split": "all", **options})


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    FAKE.write_archive(folder)
    FAKE.write_mask_archive(folder)
    return folder


@pytest.fixture(scope="module")
def birds(archives: Path) -> CUB200Record:
    return record_class(archives)(archives, split="all", target_type=ALL_TYPES)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    """What torchvision shows of the extracted archive."""
    return ImageFolder(FAKE.write_tree(tmp_path_factory.mktemp("plain")) / "CUB_200_2011/images")


def ids_in_order(plain: ImageFolder) -> list[int]:
    id_of = {name: image_id for image_id, name in FAKE.images.items()}
    return [id_of["/".join(Path(path).parts[-2:])] for path, _ in plain.samples]


def rows(file: str) -> list[list[str]]:
    return [line.split() for line in FAKE.files[file].decode().splitlines()]


def test_the_traps_of_the_real_files_are_in_the_fake(birds: CUB200Record, plain: ImageFolder) -> None:
    """The contract compares all targets; it would not see an image taken for another, or a column too many."""
    assert {len(row) for row in rows(FILES["attributes"])} == {5, 6, 7}
    assert ids_in_order(plain) != sorted(ids_in_order(plain))
    outside = 0
    for image, (_, (x, y, w, h), *_) in birds:
        outside += bool(x + w > image.width or y + h > image.height)
    assert outside


def test_targets_are_copies_and_go_through_their_transform(archives: Path) -> None:
    seen = []
    dataset = record_class(archives)(archives, target_type=["category", "bbox"], target_transform=seen.append)
    for _ in range(2):
        dataset[0]
        assert [type(item) for item in seen[-1]] == [int, torch.Tensor]
        assert seen[-1][1].any()
        seen[-1][1].zero_()


def test_mask_is_a_mask_at_the_image_position(birds: CUB200Record) -> None:
    for i in range(len(birds)):
        mask = np.asarray(birds[i][1][-1])
        x, y, w, h = birds[i][1][1].int().tolist()
        inside = mask[y : y + h, x : x + w]
        assert (inside == 204).sum() == (mask == 204).sum() > 0


@pytest.mark.parametrize("form", ["archive", "tree", "command line"])
def test_masks_are_prepared_only_when_asked_for(form: str, tmp_path: Path) -> None:
    FAKE.write_archive(tmp_path)
    FAKE.write_mask_archive(tmp_path)
    kind = record_class(tmp_path)
    kind(tmp_path)
    masks = tmp_path / "cub200.segmentations.records"
    assert not masks.exists()
    if form == "tree":
        (tmp_path / cub200.MASK_ARCHIVE).unlink()
        FAKE.write_mask_tree(tmp_path)
    if form == "command line":
        from recordzoo.preparing.preparation import ensure

        ensure(dataset_recipe("cub200", "segmentations", kind.raw_files), tmp_path)
    image, mask = kind(tmp_path, target_type="segmentation")[0]
    assert image.size == mask.size
    assert RecordReader(masks).names[0] == RecordReader(tmp_path / "cub200.records").names[0]


def test_masks_lie_beside_a_record_set_elsewhere(archives: Path, tmp_path: Path) -> None:
    kind = record_class(archives)
    kind(archives, target_type="segmentation", records_dir=tmp_path / "birds.records")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["birds.records", "birds.segmentations.records"]
    given = kind(tmp_path / "birds.records", target_type="segmentation", split="test")
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
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    other = cub200.build(seed=5)
    other.write_tree(tmp_path / "there")
    other.write_mask_tree(tmp_path / "there")
    CUB200Record(tmp_path / "there", target_type="segmentation")
    (tmp_path / "there/cub200.segmentations.records").rename(tmp_path / "here/cub200.segmentations.records")
    with pytest.raises(OtherSourceError, match="belong to other images"):
        open_tree(tmp_path / "here", target_type="segmentation")


def test_masks_that_belong_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "segmentations/x").mkdir(parents=True)
    (tmp_path / "segmentations/x/y.png").write_bytes(next(iter(FAKE.masks.values())))
    with pytest.raises(SourceError, match="none of the 1 masks"):
        open_tree(tmp_path, target_type="segmentation")


@pytest.mark.parametrize("kind", FILES)
def test_an_absent_file_disables_its_target_only(kind: str, tmp_path: Path) -> None:
    rest = [other for other in FILES if other != kind]
    assert open_tree(tmp_path, (FILES[kind],), target_type=["category", *rest])[0][1][0] == 0
    with pytest.raises(NotPreparedError, match=FILES[kind]) as caught:
        CUB200Record(tmp_path, target_type=kind)
    assert isinstance(caught.value, FileNotFoundError)


def test_without_the_split_file_there_is_only_all(tmp_path: Path) -> None:
    assert len(open_tree(tmp_path, ("CUB_200_2011/train_test_split.txt",))) == 12
    with pytest.raises(NotPreparedError, match=r"split 'train' needs CUB_200_2011/train_test_split\.txt"):
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


def test_a_listed_image_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    gone = FAKE.images[5]
    with pytest.raises(SourceError, match=f"1 is not in the raw data: {gone}"):
        open_tree(tmp_path, (f"CUB_200_2011/images/{gone}",))
    assert not (tmp_path / "cub200.records").exists()


def test_an_image_that_is_not_listed_is_an_error(tmp_path: Path) -> None:
    extra = "CUB_200_2011/images/001.Black_footed_Albatross/new.jpg"
    with pytest.raises(SourceError, match=r"1 image is .* not listed .*: 001\.Black_footed_Albatross/new\.jpg"):
        open_tree(tmp_path, (), {extra: FAKE.files[f"CUB_200_2011/images/{FAKE.images[1]}"]})


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        (FILES["bbox"], lambda data: data[: len(data) // 2], "not complete|not a table"),
        (FILES["bbox"], lambda data: data.replace(b"3 ", b"99 ", 1), "has no image with the number 99"),
        (FILES["bbox"], lambda data: b"1 2 three 4 5\n", "not a table of 5 or more numbers"),
        (FILES["bbox"], lambda data: b"", "is empty"),
        (FILES["parts"], lambda data: b"".join(data.splitlines(True)[:-1]), "lacks rows for 1 of 12 images"),
        (FILES["parts"], lambda data: data + b"1 16 0 0 0\n", r"the second column goes from 1 to 16; expected 1 to 15"),
        (FILES["attributes"], lambda data: data + b"1 4000000 0 0 0\n", "expected 1 to 312"),
        ("CUB_200_2011/images.txt", lambda data: b"one " + data, "line 1: expected a number and a name"),
        ("CUB_200_2011/images.txt", lambda data: data.replace(b"2 ", b"1 ", 1), "have the number"),
        ("CUB_200_2011/parts/parts.txt", lambda data: data.replace(b"2 ", b"44 ", 1), "not numbered from 1 to 15"),
    ],
)
def test_a_broken_annotation_file_is_an_error(file: str, damage, message: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        open_tree(tmp_path, (), {file: damage(FAKE.files[file])})
    assert file in str(caught.value)


def test_a_skipped_image_does_not_move_the_others(tmp_path: Path, birds: CUB200Record) -> None:
    broken = f"CUB_200_2011/images/{FAKE.images[5]}"
    dataset = open_tree(tmp_path, (), {broken: b"no picture"}, on_error="skip", target_type=["bbox", "attributes"])
    assert len(dataset) == 11
    kept = [i for i, image_id in enumerate(birds.image_ids) if image_id != 5]
    assert dataset.image_ids.tolist() == birds.image_ids[kept].tolist()
    for i, position in enumerate(kept):
        for mine, its in zip(dataset[i][1], birds[position][1][1:4:2], strict=True):
            assert torch.equal(mine, its)


def test_arguments_that_do_not_exist(archives: Path) -> None:
    kind = record_class(archives)
    with pytest.raises(ArgumentError, match="target_type is"):
        kind(archives, target_type=[])
    with pytest.raises(ArgumentError, match="no part 'masks'"):
        dataset_recipe("cub200", "masks")
    with pytest.raises(ArgumentError, match=r"raw_files lacks CUB_200_2011\.tgz"):
        dataset_recipe("cub200", "", ())


def test_assigned_samples(archives: Path, plain: ImageFolder) -> None:
    dataset = record_class(archives)(archives, split="all", target_type=["category", "bbox"])
    box = dataset[3][1][1]
    dataset.samples = [(dataset.samples[3][0], 77)]
    image, (category, found) = dataset[0]
    assert (category, found.tolist()) == (77, box.tolist())
    assert image.tobytes() == plain[3][0].tobytes()
    dataset.samples = [(plain.samples[0][0], 1)]  # a file of the user's own
    with pytest.raises(LookupError, match="only its category is known"):
        dataset[0]


def test_is_valid_file_selects(archives: Path) -> None:
    dataset = record_class(archives)(
        archives, split="all", target_type="bbox", is_valid_file=lambda path: "_0001_" not in path
    )
    assert len(dataset) == 9
    assert len(dataset.image_ids) == 9
    by_id = {int(row[0]): [float(value) for value in row[1:]] for row in rows(FILES["bbox"])}
    assert [dataset[i][1].tolist() for i in range(9)] == [by_id[image_id] for image_id in dataset.image_ids]


def test_download_fetches_masks_only_when_asked_for(archives: Path, tmp_path: Path) -> None:
    names = (cub200.ARCHIVE, cub200.MASK_ARCHIVE)
    with FileServer({name: (archives / name).read_bytes() for name in names}) as server:

        class Record(CUB200Record):
            raw_files = (
                *cub200.remote_files(archives, lambda name: f"{server.url}/{name}"),
                *cub200.remote_files(archives, lambda name: f"{server.url}/{name}", "segmentations"),
            )

        Record(tmp_path, download=True)
        assert {request.path.lstrip("/") for request in server.log} == {cub200.ARCHIVE}
        assert Record(tmp_path, download=True, target_type="segmentation")[0][1].mode == "L"
        assert {request.path.lstrip("/") for request in server.log} == set(names)


def test_masks_at_a_url_take_no_more_of_the_cache_than_was_said(
    archives: Path, birds: CUB200Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORDZOO_CACHE_DIR", str(tmp_path))
    images = birds.records_path
    masks = images.with_name("cub200.segmentations.records")
    files = {f"{path.parent.name}/{path.name}": path.read_bytes() for path in (*images.iterdir(), *masks.iterdir())}
    with FileServer(files) as server:
        kind = {"split": "all", "target_type": "segmentation", "cache_bytes": 0}
        _, mask = CUB200Record(f"{server.url}/cub200.records", **kind)[0]
        assert np.array_equal(mask, birds[0][1][ALL_TYPES.index("segmentation")])
    assert list(tmp_path.glob("*/shard-*")) == []


@pytest.mark.parametrize("folder", ["plain", "with space", "häß", "日本", "-dash", "a*b[c]"])
def test_spellings_of_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    root = tmp_path / folder
    cub200.build(2, 2).write_tree(root)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings = (root, str(root), folder, f"./{folder}/", f"~/{folder}", Path("~") / folder, f"{folder}/../{folder}")
    digests = {RecordReader(CUB200Record(spelling).records_path).digest for spelling in spellings}
    assert len(digests) == 1
    assert len(list(root.glob("*.records"))) == 1
    assert sorted(os.listdir(tmp_path)) == [folder]


def test_roots_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECORDZOO_OFFLINE", "1")
    for root in ("missing", "./missing", "file", "file/below"):
        for download in (False, True):
            with pytest.raises(RecordZooError, match=str(tmp_path / root)) as caught:
                CUB200Record(root, download=download)
            assert download or isinstance(caught.value, NotPreparedError | FileNotFoundError)
        said = []
        for kind in (ImageFolder, ImageFolderRecord):
            with pytest.raises(OSError, match=root) as raised:
                kind(root)
            said.append(str(raised.value))
        assert said[0] == said[1]
    assert (tmp_path / "file").read_bytes() == b"x"
