"""Variants: names, sizes, pixels; made from raw data or from the original set, and what refuses."""

import io
import json
import os
import re
import shutil
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms
from torchvision.datasets.folder import ImageFolder
from torchvision.transforms import v2
from torchvision.transforms.functional import _compute_resized_output_size

from recordzoo import (
    CIFAR10Record,
    CUB200Record,
    ImageFolderRecord,
    ImageNetRecord,
    RecordLoader,
    RecordReader,
    VOCDetectionRecord,
    convert,
)
from recordzoo.errors import (
    ArgumentError,
    CorruptRecordError,
    FolderError,
    ImageError,
    NotPreparedError,
    OtherSourceError,
    PrepareError,
)
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import Preparation, ensure
from recordzoo.recipes import folders as folder
from recordzoo.recipes.variant import Variant, converted
from recordzoo.records.verify import verify
from tests import preparing
from tests.fakes import cifar as cifar10
from tests.fakes import cub200, imagenet, lists, simple, voc
from tests.fakes.folder import bad_image, cut_image, write_tree
from tests.fakes.odd_images import odd_images, png_header
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.records import flip_byte, place_of
from tests.preparing import builds, contents, prepared
from tests.running import run

RNG = np.random.default_rng(4)
PHOTO = picture(RNG, 150, 100, 0.2, (20, 20, 60, 50))
ODD = {**odd_images(), "photo.jpg": jpeg(PHOTO), "flat.webp": encoded(PHOTO, "WEBP")}


# Names


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("256", Variant(256)),
        ("max512", Variant(max_side=512)),
        ("256-raw", Variant(256, format="raw")),
        ("256-q95", Variant(256, quality=95)),
        ("max512-webp-q7", Variant(max_side=512, format="webp", quality=7)),
        ("full", Variant()),
        ("full-raw", Variant(format="raw")),
    ],
)
def test_names_say_all_and_are_read_back(name: str, variant: Variant) -> None:
    assert str(variant) == name
    assert Variant.parse(name) == variant


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("256-q90", "is called '256'"),
        ("0256", "Valid are '256'"),
        ("256-gif", "Valid are '256'"),
        ("\u0662\u0665\u0666", "Valid are '256'"),
        ("", "Valid are '256'"),
        ("../256", "Valid are '256'"),
        (256, "Valid are '256'"),
        ("256-png-q80", "Quality 80 is for JPEG and WebP; png loses nothing"),
        ("256-q101", "must be a whole number from 1 to 100"),
        ("99999", "must be a whole number from 1 to 65500"),
    ],
)
def test_other_names_are_refused(name: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        Variant.parse(name)


@pytest.mark.parametrize("values", [{"short_side": 0}, {"max_side": -1}, {"short_side": 2.5}, {"short_side": True}])
def test_sides_are_whole_numbers(values: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="side of a variant is"):
        Variant(**values)


@given(st.integers(1, 6000), st.integers(1, 6000), st.integers(1, 6000))
def test_sizes_are_torchvisions_and_never_larger(width: int, height: int, side: int) -> None:
    image = [height, width]
    expected = image if min(image) <= side else _compute_resized_output_size((height, width), [side])
    assert list(reversed(Variant(side).size_of(width, height))) == expected
    expected = image if max(image) <= side else _compute_resized_output_size((height, width), None, side, True)
    assert list(reversed(Variant(max_side=side).size_of(width, height))) == [max(1, each) for each in expected]
    assert Variant(format="png").size_of(width, height) == (width, height)


# Pixels


def stock(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")  # `pil_loader`


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("name", ODD)
def test_raw_pixels_are_those_of_torchvisions_resize(name: str) -> None:
    for variant, resize in (
        (Variant(64, format="raw"), transforms.Resize(64)),
        (Variant(max_side=96, format="raw"), v2.Resize(None, max_size=96)),
    ):
        image = stock(ODD[name])
        if min(image.size) > 2:  # torchvision fails where nothing would be left of a side
            side = min(image.size) if variant.short_side else max(image.size)
            expected = np.asarray(resize(image) if side > (variant.side or 0) else image)
            data, (width, height) = converted(ODD[name], variant)
            assert np.array_equal(np.frombuffer(data, np.uint8).reshape(height, width, 3), expected)


@pytest.mark.parametrize("name", ["photo.jpg", "cmyk.jpg", "turned.jpg", "gray.png", "alpha.png", "flat.webp"])
def test_encoded_ones_are_what_pillow_makes_of_those_pixels(name: str) -> None:
    raw, (width, height) = converted(ODD[name], Variant(64, format="raw"))
    pixels = Image.frombytes("RGB", (width, height), raw)
    assert np.array_equal(np.asarray(stock(converted(ODD[name], Variant(64, format="png"))[0])), np.asarray(pixels))
    for quality in (35, 90):
        expected = encoded(pixels, "JPEG", quality=quality, subsampling="4:2:0")
        assert converted(ODD[name], Variant(64, quality=quality)) == (expected, pixels.size)
    assert converted(ODD[name], Variant(64, format="webp")) == (encoded(pixels, "WEBP", quality=90), pixels.size)


def test_what_fits_already_is_stored_untouched() -> None:
    small = {"jpeg": jpeg(PHOTO, 30), "png": encoded(PHOTO, "PNG"), "webp": encoded(PHOTO, "WEBP")}
    for kind, data in small.items():
        assert converted(data, Variant(100, format=kind))[0] == data
        assert converted(data, Variant(max_side=150, format=kind))[0] == data
        assert converted(data, Variant(99, format=kind))[0] != data
        for other in small.keys() - {kind}:
            changed, size = converted(data, Variant(100, format=other))
            assert size == PHOTO.size
            assert Image.open(io.BytesIO(changed)).format == other.upper()
    again, _ = converted(small["jpeg"], Variant(quality=5))  # in the same size
    assert len(again) < len(small["jpeg"]) * 0.8


@pytest.mark.parametrize("image_format", ["jpeg", "png", "webp"])
def test_metadata_is_dropped(image_format: str) -> None:
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    data = encoded(PHOTO, "JPEG", exif=exif.tobytes(), icc_profile=b"profile", comment=b"secret", dpi=(300, 300))
    for source in (data, encoded(PHOTO, "PNG", exif=exif.tobytes(), icc_profile=b"profile", transparency=(1, 2, 3))):
        stored = Image.open(io.BytesIO(converted(source, Variant(64, format=image_format))[0]))
        assert {"exif", "icc_profile", "comment", "dpi", "transparency"}.isdisjoint(stored.info)
        assert not stored.getexif()


# A tree, and its record sets


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "photos")


def shown(dataset: Any) -> list[tuple[Any, Any]]:
    return [(np.asarray(image).tobytes(), image.size, label) for image, label in dataset]


@pytest.mark.parametrize("name", ["9", "9-png", "max12-webp", "9-raw", "full-raw", "full-q40"])
def test_a_tree(tree: Path, name: str) -> None:
    variant = Variant.parse(name)
    theirs = ImageFolder(tree)
    ours = ImageFolderRecord(tree, variant=name)
    assert ours.records_path == tree.with_name(f"photos-{name}.records")
    assert (ours.samples, ours.targets, ours.classes) == (theirs.samples, theirs.targets, theirs.classes)
    manifest = RecordReader(ours.records_path).manifest
    assert manifest.variant == name
    assert manifest.metadata["variant"].items() >= {"resampling": "bilinear", **asdict(variant)}.items()
    for (path, _), (image, label), (original, theirs_label) in zip(ours.samples, ours, theirs, strict=True):
        assert image.size == variant.size_of(*original.size)
        assert (image.mode, label) == ("RGB", theirs_label)
        if variant.format in ("png", "raw"):
            expected = original.resize(image.size, Image.Resampling.BILINEAR)
            assert np.array_equal(np.asarray(image), np.asarray(expected)), path
    assert verify(ours.records_path, full=True).ok
    assert sorted(path.name for path in tree.parent.iterdir()) == ["photos", f"photos-{name}.records"]


@pytest.mark.parametrize("name", ["9", "9-raw"])
def test_from_the_original_set_come_the_same_files_as_from_the_tree(tree: Path, name: str) -> None:
    wanted = contents(ImageFolderRecord(tree, variant=name, num_shards=3, workers=1).records_path)
    shutil.rmtree(tree.with_name(f"photos-{name}.records"))
    ImageFolderRecord(tree)
    assert "photos.records" in Preparation(folder.FolderRecipe(), tree, Options(variant=name)).outlook().source
    assert contents(ImageFolderRecord(tree, variant=name, num_shards=3, workers=2).records_path) == wanted


def test_the_tree_may_be_gone(tree: Path) -> None:
    ImageFolderRecord(tree)
    wanted = shown(ImageFolderRecord(tree, variant="9-png", records_dir=tree.parent / "wanted.records"))
    shutil.rmtree(tree)
    assert shown(ImageFolderRecord(tree, variant="9-png")) == wanted
    shutil.rmtree(tree.with_name("photos.records"))
    assert shown(ImageFolderRecord(tree, variant="9-png")) == wanted
    with pytest.raises(FolderError, match="photos"):
        ImageFolderRecord(tree, variant="8-png")
    with pytest.raises(FolderError, match="photos"):
        ImageFolderRecord(tree)


def test_a_record_set_given_as_root(tree: Path) -> None:
    path = ImageFolderRecord(tree).records_path
    small = ImageFolderRecord(path, variant="9-raw")
    assert small.records_path == tree.with_name("photos-9-raw.records")
    assert shown(small) == shown(ImageFolderRecord(small.records_path))
    assert shown(small) == shown(ImageFolderRecord(small.records_path, variant="9-raw"))
    assert shown(ImageFolderRecord(path, variant="original")) == shown(ImageFolderRecord(path))
    with pytest.raises(OtherSourceError, match="holds the variant '9-raw', not 'original'"):
        ImageFolderRecord(small.records_path, variant="8")
    with pytest.raises(OtherSourceError, match="holds the variant '9-raw', not '8'"):
        ImageFolderRecord(tree, variant="8", records_dir=small.records_path)
    with pytest.raises(OtherSourceError, match="holds the variant 'original', not '8'"):
        ImageFolderRecord(tree, variant="8", records_dir=path)


def test_a_selection(tree: Path) -> None:
    """Of what is stored whole it is a view; else it gets records of its own, which no other variant is taken for."""

    def is_cat(path: str) -> bool:
        return path.endswith((".png", ".webp")) and "cat" in path

    options: Any = {"is_valid_file": is_cat, "allow_empty": True}
    own = ImageFolderRecord(tree, variant="9-webp", **options)
    assert re.fullmatch(r"photos-[0-9a-f]{8}-9-webp\.records", own.records_path.name)
    ImageFolderRecord(tree, variant="max9-raw")  # photos-max9-raw: eight characters, as a selection's digest
    view = ImageFolderRecord(tree, variant="max9-raw", **options)
    assert view.records_path.name == "photos-max9-raw.records"
    shutil.rmtree(tree)
    assert shown(ImageFolderRecord(tree, variant="9-webp", **options)) == shown(own)
    with pytest.raises(FolderError, match="photos"):
        ImageFolderRecord(tree, **options)


def test_a_loader_of_ones_own_gets_what_is_stored(tree: Path) -> None:
    def size(path: str) -> tuple[int, int]:
        return Image.open(io.BytesIO(Path(path).read_bytes())).size

    for name in ("9", "9-raw"):
        ours = ImageFolderRecord(tree, variant=name, loader=size)
        assert [min(image) for image, _ in ours] == [min(9, *size(path)) for path, _ in ours.samples]


def test_from_a_list_and_from_its_original_set_come_the_same_files(tmp_path: Path) -> None:
    """Values that several records share are stored once, and splits are right without what is left out."""
    lists.write_images(tmp_path)
    (tmp_path / lists.NAMES[3]).write_bytes(cut_image())
    lines = ["path,label,split,note", *(f"{name},{label},{'ab'[n % 2]},{label} {n}" for n, (name, label) in ROWS)]
    listed = lists.write_list(tmp_path / "list.csv", lines)
    wanted = prepared(listed, tmp_path / "wanted.records", variant="9-raw", on_error="skip")
    prepared(listed)
    made = RecordReader(prepared(listed, variant="9-raw", on_error="skip"))
    assert contents(made.path) == contents(wanted)
    assert len(np.unique(made.array("image.index")["slot"])) < len(made) < len(ROWS)
    second = [name for _, (name, _) in ROWS[1::2] if "ö" not in name]
    assert [made.names[position] for position in made.split("b")] == second
    lists.write_list(listed, lines[:-1])  # the list has changed since: the original set is not used for another one
    assert len(RecordReader(prepared(listed, variant="8"))) == len(ROWS) - 1


ROWS = list(enumerate([*zip(lists.NAMES, lists.LABELS, strict=True), (lists.NAMES[2], "cat")]))


# Datasets


@pytest.mark.parametrize("form", ["tree", "archive"])
@pytest.mark.parametrize("name", ["30", "30-raw"])
def test_birds_keep_labels_splits_and_what_is_not_in_pixels(tmp_path: Path, form: str, name: str) -> None:
    fake = cub200.build(3, 4)
    (fake.write_tree if form == "tree" else fake.write_archive)(tmp_path)
    options: Any = {"split": "test", "target_type": ["category", "attributes"]}
    small = CUB200Record(tmp_path, variant=name, check_hash=False, **options)
    shutil.move(small.records_path, tmp_path / "raw-route")
    original = CUB200Record(tmp_path, check_hash=False, **options)
    again = CUB200Record(tmp_path, variant=name, **options)
    assert again.records_path.name == f"cub200-{name}.records"
    for dataset in (small, again):
        assert (dataset.samples, dataset.classes) == (original.samples, original.classes)
        assert dataset.attribute_names == original.attribute_names
        assert np.array_equal(dataset.image_ids, original.image_ids)
    for (image, target), (full, theirs), index in zip(again, original, range(99), strict=False):
        assert image.size == Variant.parse(name).size_of(*full.size)
        assert target[0] == theirs[0]
        assert torch.equal(target[1], theirs[1])
        assert again.read(index) == CUB200Record(tmp_path / "raw-route", **options).read(index)
    one, two = (RecordReader(path).manifest for path in (again.records_path, tmp_path / "raw-route"))
    assert (one.source, one.raw_files) == (two.source, two.raw_files)
    assert (one.metadata, one.splits) == (two.metadata, two.splits)
    for kind in ("bbox", "parts", "segmentation"):
        for root, variant in ((tmp_path, "20"), (again.records_path, None)):
            with pytest.raises(ArgumentError, match=f"'{kind}' is in pixels of the original images"):
                CUB200Record(root, variant=variant, target_type=kind)
    assert not (tmp_path / "cub200-20.records").exists()


def test_targets_of_birds_fit_images_of_the_full_size(tmp_path: Path) -> None:
    cub200.build(2, 2).write_tree(tmp_path)
    options: Any = {"target_type": ["bbox", "parts"]}
    full, original = CUB200Record(tmp_path, variant="full", **options), CUB200Record(tmp_path, **options)
    for (_, ours), (_, theirs) in zip(full, original, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_imagenet_is_not_downloaded_where_the_original_set_is(tmp_path: Path) -> None:
    fake = imagenet.build(3, 3)
    fake.write_tree(tmp_path, "train")
    fake.write_meta_bin(tmp_path)
    original = ImageNetRecord(tmp_path)
    shutil.rmtree(tmp_path / "train")
    small = ImageNetRecord(tmp_path, variant="32", download=True)
    assert small.records_path.name == "imagenet.train-32.records"
    assert (small.classes, small.wnids, small.samples) == (original.classes, original.wnids, original.samples)
    assert {min(image.size) for image, _ in small} == {32}
    with pytest.raises(NotPreparedError, match=r"(?s)^imagenet\.val-32: .* get\n.*ILSVRC2012_img_val\.tar"):
        ImageNetRecord(tmp_path, "val", variant="32")


def test_samples_of_ones_own(tmp_path: Path) -> None:
    samples = [(picture(RNG, 40 + i, 30), {"where": [i, "ä"]}) for i in range(5)]
    small = ImageFolderRecord(convert(samples, tmp_path / "own.records", workers=1), variant="20-raw")
    assert [target for _, target in small] == [target for _, target in samples]
    resize = transforms.Resize(20)
    assert [image.tobytes() for image, _ in small] == [resize(image).tobytes() for image, _ in samples]


def test_what_has_no_variants(tmp_path: Path) -> None:
    voc.build().write_tree(tmp_path / "voc")
    with pytest.raises(ArgumentError, match=r"^the target is in pixels of the original images, and would not"):
        VOCDetectionRecord(tmp_path / "voc", image_set="val", variant="256")
    cifar10.build().write_tree(tmp_path / "cifar")
    with pytest.raises(ArgumentError, match=r"no variants of cifar10: its images are stored as numbers"):
        CIFAR10Record(tmp_path / "cifar", variant="16")
    assert not list(tmp_path.rglob("*.records"))
    with pytest.raises(ArgumentError, match="Valid are '256'"):
        ImageFolderRecord(tmp_path, variant="huge")


# Broken images


@pytest.fixture
def broken(tree: Path) -> Path:
    for name, data in {"bad.jpg": bad_image(), "cut.jpg": cut_image(), "bomb.png": png_header(30_000, 30_000)}.items():
        (tree / "cat" / name).write_bytes(data)
    return tree


BAD = {"cat/bad.jpg": "no image format", "cat/cut.jpg": "truncated", "cat/bomb.png": "decompression bomb"}


@pytest.mark.parametrize("has_original", [False, True])
@pytest.mark.parametrize("name", ["9", "9-raw"])
def test_broken_images_are_kept_and_raise_when_they_are_read(broken: Path, name: str, has_original: bool) -> None:
    if has_original:
        ImageFolderRecord(broken)
    ours = ImageFolderRecord(broken, variant=name)
    bad = RecordReader(ours.records_path).manifest.bad
    assert bad.keys() == BAD.keys()
    assert all(why in bad[name] for name, why in BAD.items())
    for index, (path, _) in enumerate(ours.samples):
        if path.endswith(tuple(BAD)):
            with pytest.raises((ImageError, Image.DecompressionBombError)) as caught:
                ours[index]
            assert Path(path).name in str(caught.value) + str(getattr(caught.value, "__notes__", ""))
            assert ours.read(index) == (b"" if name == "9-raw" else Path(path).read_bytes())
        else:
            assert min(ours[index][0].size) <= 9
    ours.transform = transforms.Compose([transforms.Resize((9, 9)), transforms.ToTensor()])
    assert len(next(iter(RecordLoader(ours, len(ours), on_error="skip")))[0]) == len(ours) - len(BAD)


def test_broken_images_may_be_left_out_or_end_the_work(broken: Path) -> None:
    with pytest.raises(PrepareError, match=r"cat/(bad|cut|bomb)\.\w+: .*Pass on_error"):
        ImageFolderRecord(broken, variant="9", on_error="raise", workers=1)
    whole = ImageFolderRecord(broken)
    for name in ("9", "9-raw"):
        ours = ImageFolderRecord(broken, variant=name, on_error="skip")
        manifest = RecordReader(ours.records_path).manifest
        assert manifest.skipped.keys() == BAD.keys()
        assert ours.samples == [sample for sample in whole.samples if not sample[0].endswith(tuple(BAD))]
        assert len([image for image, _ in ours]) == len(whole) - len(BAD)


def test_what_a_format_cannot_hold_stays_as_it_is(tree: Path) -> None:
    data = encoded(Image.new("RGB", (70_000, 1), "red"), "PNG")
    (tree / "cat" / "long.png").write_bytes(data)
    for name in ("full", "full-webp", "full-png"):
        ours = ImageFolderRecord(tree, variant=name)
        index = [path for path, _ in ours.samples].index(str(tree / "cat" / "long.png"))
        assert ours[index][0].size == (70_000, 1)
        assert (ours.read(index) == data) == (name != "full-png")
        found = RecordReader(ours.records_path).manifest.bad
        assert found.keys() == ({"cat/long.png"} if name != "full-png" else set())


def test_a_damaged_original_set_ends_the_work(tree: Path) -> None:
    path = ImageFolderRecord(tree).records_path
    flip_byte(*place_of(path, 3))
    with pytest.raises(CorruptRecordError, match="damaged"):
        ImageFolderRecord(tree, variant="9", workers=1)
    assert not tree.with_name("photos-9.records").exists()


# Interrupted, resumed, in several processes


SMALL = {"variant": "12-raw", "shard_bytes": 5000}


@pytest.mark.parametrize("other", ["variant", "pillow"])
def test_an_interrupted_variant_is_not_gone_on_with_as_another_one(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple.write(tmp_path, "tree")
    place: Any = {"records_dir": str(tmp_path / "small.records"), "workers": 1}
    preparing.run(tmp_path, "tree", env={"RECORDZOO_KILL_AT": "shard.done:3"}, **SMALL, **place)
    kept = [path.open("rb") for build in builds(tmp_path) for path in build.glob("*.lmdb")]  # their numbers stay used
    shards = {os.fstat(file.fileno()).st_ino for file in kept}
    assert shards
    if other == "pillow":
        monkeypatch.setattr("recordzoo.recipes.variant.ENCODER", "Pillow 0")
    side = 11 if other == "variant" else 12
    path = ensure(simple.SimpleRecipe("tree"), tmp_path, variant=f"{side}-raw", shard_bytes=5000, **place)
    assert {min(RecordReader(path).value("image", i).shape[:2]) for i in range(4)} == {side}
    assert shards.isdisjoint({each.stat().st_ino for each in path.glob("*.lmdb")})
    for file in kept:
        file.close()


def test_the_original_set_may_appear_meanwhile(tmp_path: Path) -> None:
    """Whoever began with the raw data ends with it; hours of work are not thrown away."""
    simple.write(tmp_path, "tree")
    with preparing.Process(tmp_path, "tree", stop_at="shard.done:2", workers=1, **SMALL) as process:
        process.wait_until_stopped()
        ensure(simple.SimpleRecipe("tree"), tmp_path)
        process.signal(signal.SIGCONT)
        assert process.end().digest == RecordReader(tmp_path / "simple-12-raw.records").digest


def test_a_variant_needs_less_room(tree: Path) -> None:
    write_tree(tree, {f"cat/{number}.jpg": jpeg(picture(RNG, 700, 500), 100) for number in range(3)})
    ImageFolderRecord(tree)
    names = ("64", "max300", "64-raw", "full-raw", "9999")
    outlooks = {name: Preparation(folder.FolderRecipe(), tree, Options(variant=name)).outlook() for name in names}
    raw, peaks = outlooks["64"].raw_bytes, {name: outlook.peak_bytes for name, outlook in outlooks.items()}
    assert raw < peaks["64"] < peaks["max300"] < raw * 1.5
    assert peaks["9999"] > raw * 2  # all are stored untouched
    for name in ("64", "max300", "64-raw", "full-raw"):
        path = ImageFolderRecord(tree, variant=name).records_path
        taken = sum(file.stat().st_size for file in path.glob("*.lmdb"))
        assert taken < (peaks[name] - raw) * 1.3 + 100_000, name


# The command


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--short-side", 9], "9"),
        (["--max-side", 12, "--format", "png"], "max12-png"),
        (["--format", "raw"], "full-raw"),
        (["--short-side", 9, "--quality", 50, "--format", "webp"], "9-webp-q50"),
    ],
)
def test_prepare(tree: Path, flags: list[object], name: str) -> None:
    planned = run("prepare", "photos", "--dry-run", *flags, cwd=tree.parent)
    assert f"converts {tree} " in planned.stdout
    assert f"photos-{name}.records" in planned.stdout
    done = run("prepare", "./photos", *flags, cwd=tree.parent)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"./photos: ready, 13 records of 3 classes (Zebra, cat, dog) in {tree.parent}/photos-{name}" in done.stderr
    again = run("prepare", "photos", *flags, "--json", cwd=tree.parent)
    assert json.loads(again.stdout)["record_sets"][0]["was_ready"]
    assert sorted(Variant.parse(name).flags.split()) == sorted(map(str, flags))
    shown = run("info", f"photos-{name}.records", cwd=tree.parent)
    assert shown.stdout.startswith(f"record set of images in classes, {name}\n")


def test_prepare_of_a_record_set(tree: Path) -> None:
    run("prepare", "photos", cwd=tree.parent)
    shutil.rmtree(tree)
    done = run("prepare", "photos.records", "--short-side", 9, cwd=tree.parent)
    assert "photos.records: ready, 13 records" in done.stderr
    assert len(RecordReader(tree.parent / "photos-9.records")) == 13


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["photos", "--short-side", 9, "--max-side", 9], 2, "--short-side 9 and --max-side 9 are both given"),
        (["photos", "--format", "gif"], 2, "Unknown format 'gif' of a variant"),
        (["photos", "--format", "png", "--quality", 9], 2, "Quality 9 is for JPEG and WebP"),
        (["voc.2012", "--short-side", 9], 2, "There are no variants of voc2012: its images come with others (mask)"),
        (["photos-9.records", "--short-side", 8], 1, "holds the variant '9', not 'original'"),
    ],
)
def test_mistakes(tree: Path, arguments: list[object], code: int, message: str) -> None:
    run("prepare", "photos", cwd=tree.parent)
    run("prepare", "photos", "--short-side", 9, cwd=tree.parent)
    done = run("prepare", *arguments, cwd=tree.parent)
    assert message in done.stderr
    assert done.returncode == code
