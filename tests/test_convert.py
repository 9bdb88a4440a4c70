"""`convert`: what each kind of sample becomes, and comes back as; resuming, refusing, the same bytes each time."""

import functools
import io
import logging
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import Dataset, Subset
from torchvision import tv_tensors

import recordzoo
from recordzoo import ImageFolderRecord, RecordReader, convert
from recordzoo.base.progress import LogProgress
from recordzoo.errors import ArgumentError, OtherSourceError, PrepareError, RecordError, SampleError
from recordzoo.own.fields import infer
from recordzoo.own.values import ENCODINGS, picture_bytes
from recordzoo.records.arrays import decode_value
from recordzoo.records.manifest import BlobSpec
from tests.fakes.samples import COUNT, KINDS, Samples, jpeg, noise
from tests.preparing import REPOSITORY

WIDE = tv_tensors.BoundingBoxes(torch.ones(1, 4), format="XYWH", canvas_size=(9, 9))  # type: ignore[call-overload]


class Listed(Dataset):
    """A dataset of these samples."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def pixels(value: Any) -> np.ndarray:
    """The pixels of an image, however it is given, [H, W] or [H, W, C]."""
    if isinstance(value, bytes):
        value = Image.open(io.BytesIO(value))
    if isinstance(value, torch.Tensor):
        value = value.numpy().transpose(1, 2, 0)
    array = np.asarray(value)
    return array[..., 0] if array.shape[2:] == (1,) else array


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


STORED = {
    **dict.fromkeys(("bytes", "pil", "pil-sizes", "gray", "hwc1", "rgba"), ({"image": "image"}, ["target"])),
    **dict.fromkeys(("small", "noise", "chw", "float", "half", "int16"), ({"image": "raw"}, ["target"])),
    **dict.fromkeys(("big-endian", "raw-shapes"), ({"image": "raw"}, ["target"])),
    **dict.fromkeys(("float-target", "bool-target", "tensor-label"), ({"image": "image"}, ["target"])),
    "numpy-label": ({"image": "image"}, ["target"]),
    "boxes": ({"image": "image", "boxes": "raw", "labels": "json"}, ["ok"]),
    "celeba": ({"image": "image"}, ["target_0", "target_1", "target_2"]),
    "text": ({"image": "image", "target": "json"}, []),
    "mask": ({"image": "image", "target": "raw"}, []),
    "three": ({"image": "image"}, ["field_2", "target"]),
    "named": ({"left": "image"}, ["target"]),
    "dict": ({"image": "image", "meta": "json"}, ["label"]),
    "bare": ({"image": "image"}, []),
    "numbers": ({}, ["input", "target"]),
}
"""Kinds of samples: the encodings of the blob fields, and the array fields."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_stored(kind: str, tmp_path: Path) -> None:
    dataset, (blobs, arrays) = Samples(kind), STORED[kind]
    reader = RecordReader(convert(dataset, tmp_path / "my.records", workers=1))
    assert {name: spec.encoding for name, spec in reader.manifest.blobs.items()} == blobs
    assert sorted(reader.columns) == arrays
    assert len(reader) == COUNT
    names = ["left", "target"] if kind == "named" else ["input", "target"] if kind == "numbers" else None
    for position in (0, 1, 17, COUNT - 1):
        sample, record = dataset[position], reader[position]
        fields = sample if isinstance(sample, dict) else None
        if fields is None:
            values = sample if isinstance(sample, tuple) else (sample,)
            fields = dict(zip(names or ("image", "target", "field_2"), values, strict=False))
            fields |= fields.pop("target") if kind == "boxes" else {}
        for name, value in fields.items():
            if name in blobs and isinstance(value, bytes):
                assert record[name] == value
            elif blobs.get(name) == "json":
                assert record[name] == plain(value)
            elif name in blobs and np.asarray(value).dtype == np.uint8:
                assert np.array_equal(pixels(record[name]), pixels(value))
            elif isinstance(value, tuple):
                for number, part in enumerate(value):
                    assert np.array_equal(record[f"{name}_{number}"], np.asarray(part))
            else:
                assert np.array_equal(record[name], np.asarray(value))
                if isinstance(record[name], np.ndarray):
                    assert record[name].dtype == np.asarray(value).dtype.newbyteorder("<")
    if "image" in blobs and kind not in ("dict", "bare"):
        check_opened(ImageFolderRecord(reader.path), dataset)


def check_opened(opened: ImageFolderRecord, dataset: Samples) -> None:
    """ImageFolder's class gives what the dataset gave; images as it decodes them."""
    assert len(opened) == COUNT
    for position in (0, 17, -1):
        image, target = opened[position]
        given = dataset[position % COUNT]
        if isinstance(image, Image.Image):
            wanted = (
                Image.open(io.BytesIO(given[0])) if isinstance(given[0], bytes) else Image.fromarray(pixels(given[0]))
            )
            assert image.mode == "RGB"
            assert np.array_equal(np.asarray(image), np.asarray(wanted.convert("RGB")))
        else:
            assert type(image) is type(given[0])
            assert np.array_equal(np.asarray(image), np.asarray(given[0]))
        if isinstance(given[1], tuple):
            assert [type(part) for part in target] == [int, torch.Tensor, float]
            assert plain(target) == plain(given[1])
        elif isinstance(given[1], Image.Image):
            assert np.array_equal(target, np.asarray(given[1]))
        elif dataset.kind == "boxes":
            assert target.keys() == given[1].keys()
            assert_same(target["boxes"], given[1]["boxes"])
            assert (target["labels"], target["ok"]) == (given[1]["labels"], True)
        else:
            assert target == plain(given[1])
            assert opened.targets[position] == target


MODES = ["1", "L", "LA", "P", "P without colours", "RGB", "PA", "RGBA"]
MODES += ["I;16", "I;16B", "I", "F", "CMYK", "YCbCr", "LAB"]


@pytest.mark.parametrize("mode", MODES)
def test_images_of_every_mode_keep_their_pixels(mode: str) -> None:
    rgb = Image.fromarray(noise(5, 20, 30, 3))
    palette = Image.fromarray(noise(3, 20, 30) % 9, "L").convert("P")
    palette.putpalette([*range(27), 255, 0, 255])
    palette.info["transparency"] = 3
    image = {
        "P": lambda: palette,
        "P without colours": lambda: Image.new("P", (30, 20), 200),
        "I;16": lambda: Image.fromarray(noise(1, 20, 30).astype(np.uint16) * 257),
        "I;16B": lambda: Image.frombytes("I;16B", (30, 20), noise(1, 20, 60).tobytes()),
        "PA": lambda: Image.merge("LA", rgb.split()[:2]).convert("PA"),
        "I": lambda: Image.fromarray(noise(1, 20, 30).astype(np.int32) * -70_000),
        "F": lambda: Image.fromarray(noise(1, 20, 30).astype(np.float32) / 3),
        "LAB": lambda: Image.frombytes("LAB", (30, 20), rgb.tobytes()),
    }.get(mode, lambda: rgb.convert(mode))()
    assert image.mode == mode.partition(" ")[0]
    if mode == "YCbCr" and int(PIL.__version__.partition(".")[0]) < 13:
        with pytest.raises(SampleError, match="mode YCbCr, which no lossless format of Pillow"):
            picture_bytes(image)
        return
    data, ending = picture_bytes(image)
    with Image.open(io.BytesIO(data)) as again:
        assert (again.mode, again.size, again.tobytes()) == (image.mode, image.size, image.tobytes())
        if mode != "P without colours":
            assert again.getpalette() == image.getpalette()
        assert again.info.get("transparency") == image.info.get("transparency")
        assert f".{again.format.lower()}" == ending
    assert ENCODINGS[image.mode][0][0] == ending[1:]


@pytest.mark.parametrize("mode", ["CMYK", "LAB"])
def test_an_image_that_was_compressed_with_loss_is_not_again(mode: str) -> None:
    buffer = io.BytesIO()
    Image.frombytes(mode, (40, 30), noise(1, 40 * 30 * len(Image.new(mode, (1, 1)).getbands())).tobytes()).save(
        buffer, "tiff", compression="jpeg"
    )
    image = Image.open(io.BytesIO(buffer.getvalue()))
    data, _ = picture_bytes(image)
    assert Image.open(io.BytesIO(data)).tobytes() == image.tobytes()


def test_an_image_of_a_mode_that_no_format_keeps(tmp_path: Path) -> None:
    with pytest.raises(SampleError, match=r"position 0: .*mode HSV.*convert\(\) it first"):
        convert([(Image.new("HSV", (200, 200)), 1)] * 3, tmp_path / "my.records")


class TestUneven:
    """What only one sample shows, far behind those that are looked at first."""

    def late(self, usual: Callable[[int], Any], other: Any) -> Listed:
        samples = [usual(i) for i in range(300)]
        samples[202] = other
        return Listed(samples)

    @pytest.mark.parametrize(
        ("usual", "other", "workers"),
        [
            (lambda i: i, None, 1),
            pytest.param(lambda i: i, "seven", 2, marks=pytest.mark.slow),
            pytest.param(lambda i: i, 1 << 70, 1, marks=pytest.mark.slow),
            pytest.param(lambda i: (i, i), (1, 2, 3), 1, marks=pytest.mark.slow),
        ],
    )
    def test_becomes_json(self, usual: Any, other: Any, workers: int, tmp_path: Path, caplog: Any) -> None:
        dataset = self.late(lambda i: (jpeg(i), usual(i)), (jpeg(202), other))
        with caplog.at_level(logging.INFO):
            reader = RecordReader(convert(dataset, tmp_path / "my.records", workers=workers, num_shards=3))
        assert reader.manifest.blobs["target"].encoding == "json"
        assert [record["target"] for record in reader] == [plain(target) for _, target in dataset.samples]
        assert "It is stored as json; beginning again" in caplog.text
        assert [path.name for path in tmp_path.iterdir()] == ["my.records"]

    def test_pixels_of_another_mode_become_png(self, tmp_path: Path) -> None:
        dataset = self.late(lambda i: (noise(i, 16, 16, 3), i), (Image.new("P", (40, 30)), 7))
        reader = RecordReader(convert(dataset, tmp_path / "my.records"))
        assert np.array_equal(pixels(reader[5]["image"]), noise(5, 16, 16, 3))
        assert Image.open(io.BytesIO(reader[202]["image"])).mode == "P"

    def test_a_part_of_a_dict_with_the_name_of_the_dict(self, tmp_path: Path) -> None:
        given = {"target": np.ones(2, int), "more": np.ones(3)}
        dataset = self.late(lambda i: (jpeg(i), {"target": np.full(2, i, int)}), (jpeg(202), given))
        reader = RecordReader(convert(dataset, tmp_path / "my.records", workers=1))
        assert reader[201]["target"].tolist() == [201, 201]
        assert reader[202]["more"].tolist() == [1, 1, 1]

    @pytest.mark.parametrize(
        ("usual", "other", "message"),
        [
            ((jpeg(1), 1), (jpeg(1), object()), "'target' holds a object, not int64"),
            ((jpeg(1), 1), (jpeg(1),), "a tuple that is no tuple of 2"),
            ({"image": b"x"}, {"picture": b"x"}, "a dict that is no dict of image"),
            ((jpeg(1), {"a": 1}), (jpeg(1), {"a": {1, 2}}), "'target' holds a set, which JSON has not"),
            ((jpeg(1), {"boxes": torch.ones(1, 4)}), (jpeg(1), {"boxes": WIDE}), "'boxes' are XYWH, not XYXY"),
            ((np.ones((9, 9), "f4"), 1), (np.ones((9, 9), "f8"), 1), r"'image' holds a numpy.ndarray (float64 [9, 9])"),
            ((Image.new("RGB", (99, 99)), 1), ("x", 1), "'image' holds a str, not an image"),
        ],
    )
    def test_or_is_refused_by_position_and_type(self, usual: Any, other: Any, message: str, tmp_path: Path) -> None:
        dataset = self.late(lambda i: usual, other)
        with pytest.raises(SampleError, match=rf"^position 202: .*{re.escape(message)}") as caught:
            convert(dataset, tmp_path / "my.records", workers=1)
        assert caught.value.position == 202
        assert isinstance(caught.value, TypeError)
        assert not (tmp_path / "my.records").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "'image' is a object: neither an image nor numbers nor JSON"),
        (np.ma.array(np.ones(9), mask=True), f"'image' is a {np.ma.MaskedArray.__module__}.MaskedArray (float64 [9])"),
        (torch.ones(9, dtype=torch.bfloat16), r"'image' is a torch.Tensor (torch.bfloat16 [9])"),
        (np.array(["a"]), "'image' is a numpy.ndarray"),
        (functools.reduce(lambda value, _: [value], range(5000), []), "'image' is a list"),
        ([10**5000], "'image' is a list"),
    ],
)
def test_what_cannot_be_stored_is_refused_at_once(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(SampleError, match=rf"^position 0: .*{re.escape(message)}"):
        convert(Listed([(value, 1)] * 3), tmp_path / "x.records")


@pytest.mark.parametrize(
    "target",
    [
        lambda i: Image.fromarray(noise(i, 80, 80), "L"),
        lambda i: Image.new("P", (80, 80), i),
        lambda i: np.full((80, 81, 1), i, np.uint8),
        lambda i: noise(i, 80, 81),
        lambda i: torch.full((1, 80, 81), i, dtype=torch.uint8),
        lambda i: torch.from_numpy(noise(i, 3, 80, 81)),
        lambda i: (torch.arange(3 * 80 * 81, dtype=torch.uint8).reshape(3, 80, 81) // 200 + i, i),
        lambda i: (i, noise(i, 80, 81, 1)),
        lambda i: np.uint64((1 << 63) + i),
        lambda i: np.arange(12, dtype=">i4").reshape(3, 4)[::-1, ::-2] + i,
    ],
)
def test_targets_come_back_as_what_they_were(target: Callable[[int], Any], tmp_path: Path) -> None:
    opened = ImageFolderRecord(convert(Listed([(jpeg(i), target(i)) for i in range(3)]), tmp_path / "x.records"))
    for number in range(3):
        for found in (opened[number][1], opened.targets[number], list(opened.targets)[number]):
            assert_same(found, target(number))


def assert_same(found: Any, given: Any) -> None:
    """The same type, mode or shape, and values."""
    if isinstance(given, tuple):
        assert len(found) == len(given)
        for one, other in zip(found, given, strict=True):
            assert_same(one, other)
    elif isinstance(given, Image.Image):
        assert isinstance(found, Image.Image)
        assert (found.mode, found.tobytes()) == (given.mode, given.tobytes())
    elif isinstance(given, np.ndarray | torch.Tensor):
        assert type(found) is type(given)
        assert found.shape == given.shape
        assert (found == given).all()
    else:
        assert found == given


@pytest.mark.parametrize("name", ["file", "allow_pickle", "self"])
def test_fields_may_be_called_as_arguments_of_numpy_are(name: str, tmp_path: Path) -> None:
    reader = RecordReader(convert(Listed([{"image": jpeg(i), name: i} for i in range(3)]), tmp_path / "x.records"))
    assert [record[name] for record in reader] == [0, 1, 2]


def test_a_field_of_orientations_turns_nothing(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    Image.new("RGB", (80, 60)).save(buffer, "JPEG", exif=exif)
    made = convert(Listed([{"image": buffer.getvalue(), "exif_orientation": 6}]), tmp_path / "x.records")
    ((image, orientation),) = recordzoo.open(made, target_type="exif_orientation")
    assert (image.size, int(orientation)) == ((80, 60), 6)


def test_what_another_program_published_meanwhile_is_not_taken_for_ours(tmp_path: Path) -> None:
    class Publishes(LogProgress):
        def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
            if not (tmp_path / "x.records").exists():  # a program that knows nothing of our locks
                convert([(jpeg(99), 99)], tmp_path / "other.records").rename(tmp_path / "x.records")

    with pytest.raises(OtherSourceError, match="holds other records than this Samples"):
        convert(Samples("bytes"), tmp_path / "x.records", workers=1, progress=Publishes())
    assert len(RecordReader(tmp_path / "x.records")) == 1


class TestArguments:
    @pytest.mark.parametrize("different", [1, 202])
    def test_what_kinds_asks_for_is_never_something_else(self, different: int, tmp_path: Path) -> None:
        samples = [(jpeg(i), np.ones(2 + (i == different), np.float32)) for i in range(203)]
        with pytest.raises(SampleError, match=rf"^position {different}: 'target' holds a numpy.ndarray"):
            convert(Listed(samples[: 3 if different == 1 else 300]), tmp_path / "x.records", kinds={"target": "array"})
        assert not (tmp_path / "x.records").exists()

    @pytest.mark.parametrize("names", [("x", "x_0"), ("a" * 64, "x")])
    def test_parts_that_would_be_called_as_another_field(self, names: tuple[str, str], tmp_path: Path) -> None:
        samples = [{name: (i, 2) if name in ("x", "a" * 64) else i for name in names} for i in range(3)]
        with pytest.raises(ArgumentError, match="cannot be a field's name: small"):
            convert(Listed(samples), tmp_path / "x.records")

    def test_names_for_a_tuple_and_for_a_dict(self, tmp_path: Path) -> None:
        reader = RecordReader(convert(Samples("three", 9), tmp_path / "x.records", fields=("photo", "target", "hist")))
        assert sorted(reader[0]) == ["hist", "name", "photo", "target"]
        opened = ImageFolderRecord(convert(Samples("dict", 9), tmp_path / "y.records", fields={"label": "target"}))
        assert opened[8][1] == 8

    @pytest.mark.parametrize(
        ("kind", "fields", "message"),
        [
            ("three", ("a", "b"), "fields has 2 names, but a sample is a tuple of 3"),
            ("three", {"image": "a"}, "fields renames image, but a sample is a tuple"),
            ("dict", {"nothing": "a"}, "fields renames nothing, but a sample is a dict of image, label, meta"),
            ("bytes", ("names_offsets", "target"), "'names_offsets' cannot be a field's name"),
            ("bytes", ("a", "a"), "'a' cannot be a field's name"),
        ],
    )
    def test_names_that_do_not_fit(self, kind: str, fields: Any, message: str, tmp_path: Path) -> None:
        with pytest.raises(ArgumentError, match=message):
            convert(Samples(kind, 9), tmp_path / "x.records", fields=fields)

    def test_kinds(self, tmp_path: Path) -> None:
        kinds: Any = {"image": "picture", "target": "json"}
        reader = RecordReader(convert(Samples("small", 9), tmp_path / "x.records", kinds=kinds))
        assert {n: spec.encoding for n, spec in reader.manifest.blobs.items()} == {"image": "image", "target": "json"}
        with pytest.raises(ArgumentError, match="kinds names targets, but the fields are image, target"):
            convert(Samples("small", 9), tmp_path / "y.records", kinds={"targets": "json"})
        with pytest.raises(ArgumentError, match="Unknown value 'png' for 'target' in argument kinds"):
            convert(Samples("small", 9), tmp_path / "y.records", kinds={"target": "png"})  # type: ignore[dict-item]
        with pytest.raises(SampleError, match="position 0: 'target' is a dict; it cannot be stored as array"):
            convert(Samples("boxes", 9), tmp_path / "y.records", kinds={"target": "array"})

    def test_classes_are_the_datasets(self, tmp_path: Path) -> None:
        dataset = Listed([(jpeg(i), i % 2) for i in range(9)])
        dataset.classes = ["cat", "dog"]
        assert ImageFolderRecord(convert(dataset, tmp_path / "a.records")).classes == ["cat", "dog"]
        assert ImageFolderRecord(convert(Subset(dataset, [0, 3]), tmp_path / "b.records")).class_to_idx["dog"] == 1
        opened = ImageFolderRecord(convert(dataset, tmp_path / "c.records", classes=["a", "b"]))
        assert opened.classes == ["a", "b"]
        assert ImageFolderRecord(convert(Samples("bytes", 9), tmp_path / "d.records")).classes == []


class Broken(Samples):
    def __getitem__(self, index: int) -> Any:
        return {}["no such image"] if index == 101 else super().__getitem__(index)


class TestDatasets:
    def test_a_random_one_is_refused(self, tmp_path: Path) -> None:
        class Random(Listed):
            def __getitem__(self, index: int) -> Any:
                return jpeg(index), random.random()

        with pytest.raises(ArgumentError, match=r"gives another sample each time.*without its random transforms"):
            convert(Random([None] * 100), tmp_path / "x.records")
        assert list(tmp_path.iterdir()) == []

    def test_one_that_cannot_be_pickled_is_converted_here(self, tmp_path: Path, caplog: Any) -> None:
        dataset = Samples("bytes")
        dataset.lock = threading.Lock()
        with caplog.at_level(logging.INFO):
            path = convert(dataset, tmp_path / "x.records", workers=2, shard_bytes=20_000)
        assert "Samples cannot be sent to other processes (TypeError: cannot pickle" in caplog.text
        assert RecordReader(path)[COUNT - 1]["image"] == jpeg(COUNT - 1)

    @pytest.mark.slow
    def test_one_of_main_with_lambdas_goes_to_workers(self, tmp_path: Path) -> None:
        code = """
import recordzoo
class Own:
    scale = staticmethod(lambda i: i * 3)
    def __len__(self): return 200
    def __getitem__(self, i): return bytes([i] * 500), self.scale(i)
reader = recordzoo.RecordReader(recordzoo.convert(Own(), "x.records", workers=2, shard_bytes=20000))
assert [record["target"] for record in reader] == [i * 3 for i in range(200)]
assert len(reader.manifest.shards) > 3
with recordzoo.RecordWriter("y.records") as writer:
    writer.write({"image": b"x", "target": 0})
import sys; assert "torch" not in sys.modules
"""
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, check=True, env=environment)

    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.slow
    def test_its_own_error_keeps_its_type_and_gets_the_position(self, workers: int, tmp_path: Path) -> None:
        with pytest.raises(KeyError, match="no such image") as caught:
            convert(Broken("bytes"), tmp_path / "x.records", workers=workers, shard_bytes=20_000)
        assert "while reading sample 101 of Broken" in str(getattr(caught.value, "__notes__", ()))

    def test_broken_images_are_named(self, tmp_path: Path, caplog: Any) -> None:
        samples = [(jpeg(i), i) for i in range(100)]
        samples[70] = (b"no image", 70)
        path = convert(Listed(samples), tmp_path / "keep.records")
        assert RecordReader(path).manifest.bad == {"000070": "no image format that Pillow knows"}
        assert RecordReader(path).read("image", 70) == b"no image"
        assert "1 broken image was kept as it is: 000070" in caplog.text
        skipped = ImageFolderRecord(convert(Listed(samples), tmp_path / "skip.records", on_error="skip"))
        assert list(skipped.targets) == [i for i in range(100) if i != 70]
        with pytest.raises(PrepareError, match="000070: no image format"):
            convert(Listed(samples), tmp_path / "raise.records", on_error="raise")


class TestAgain:
    def test_does_nothing_if_it_is_there(self, tmp_path: Path) -> None:
        path = convert(Samples("bytes"), tmp_path / "x.records")
        before = path.stat().st_ino
        assert convert(Samples("bytes"), tmp_path / "x.records") == path
        assert path.stat().st_ino == before

    def test_another_datasets_records_are_not_taken_for_ours(self, tmp_path: Path) -> None:
        path = convert(Samples("bytes"), tmp_path / "x.records")
        same, kinds = Samples("bytes"), {"target": "json"}
        others: list[Any] = [(Samples("bytes", COUNT - 1), {}), (Samples("three"), {}), (same, {"kinds": kinds})]
        for other, options in [*others, (same, {"classes": list("01234")})]:
            with pytest.raises(OtherSourceError, match=r"holds other records than this Samples, .* Pass refresh=True"):
                convert(other, path, **options)
        convert(Samples("three"), path, refresh=True)
        assert "field_2" in RecordReader(path).columns


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.sampled_from(["|u1", "<i2", "<i8", "<f2", "<f4", "<f8", "|b1"]).flatmap(
    lambda dtype: st.lists(st.integers(0, 4), max_size=3).map(
        lambda shape: np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape).astype(dtype)
    )
)
VALUE = JSON | NUMBERS | st.binary(max_size=40) | NUMBERS.map(torch.from_numpy)


def are_alike(samples: list[dict[str, Any]]) -> bool:
    """Whether all have the same keys, and under each one kind of value: bytes, or JSON, or equal arrays."""
    if len({frozenset(sample) for sample in samples}) > 1:
        return False
    for key in samples[0]:
        values = [sample[key] for sample in samples]
        looks = {(np.asarray(v).dtype, np.shape(v)) if hasattr(v, "dtype") else type(v) is bytes for v in values}
        if len(looks) > 1:
            return False
    return True


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), VALUE, min_size=1), min_size=1, max_size=4))
def test_any_samples_come_back_or_are_refused(samples: list[dict[str, Any]]) -> None:
    """The schema of all samples encodes each of them, and what it encodes is decoded to what it was."""
    try:
        schema = infer(dict(enumerate(samples)), None, {})
    except SampleError:
        assert not are_alike(samples)
        return
    for sample in samples:
        encoded = schema.encode(sample)
        found: dict[str, Any] = dict(encoded.row)
        for plan, data, _ in encoded.blobs:
            field = plan.spec
            shape = encoded.row.get(f"{plan.name}.shape", np.zeros(0)).tolist()
            found[plan.name] = decode_value(BlobSpec(field.encoding, None, field.dtype), data, shape)
        for key, value in sample.items():
            if value is None:
                assert key not in found
                continue
            stored = found[key]
            if isinstance(value, bytes):
                assert stored == value
            elif schema.fields[key].kind in ("picture", "pixels"):
                assert np.array_equal(pixels(stored), pixels(value) if np.ndim(value) > 2 else np.asarray(value))
            elif schema.fields[key].kind == "json":
                assert stored == plain(value)
            else:
                assert np.array_equal(stored, np.asarray(value))


class TestOpened:
    """What torchvision's other arguments do to a record set of one's own data."""

    def test_a_name_that_several_records_have_is_none_of_theirs(self, tmp_path: Path) -> None:
        with recordzoo.RecordWriter(tmp_path / "x.records") as writer:
            for i in range(3):
                writer.write({"name": "own.jpg" if i == 2 else "same.jpg", "image": jpeg(i), "target": i})
        opened = ImageFolderRecord(tmp_path / "x.records")
        images = [opened[i][0].tobytes() for i in range(3)]
        assert images == [Image.open(io.BytesIO(jpeg(i))).convert("RGB").tobytes() for i in range(3)]
        opened.samples = [(path, label) for path, label in opened.samples]  # others, of the same names
        assert opened[2][0].tobytes() == images[2]
        for index in (0, 1):
            with pytest.raises(RecordError, match=r"Several records of .* are called 'same\.jpg'"):
                opened[index]

    def test_names_in_any_order_are_found(self, tmp_path: Path) -> None:
        with recordzoo.RecordWriter(tmp_path / "x.records") as writer:
            for i, name in enumerate(["z/1.jpg", "a/2.jpg", "../m.jpg", "a.jpg", "/b/c.jpg"]):
                writer.write({"name": name, "image": jpeg(i), "target": i, "split": "odd" if i % 2 else "even"})
        opened = ImageFolderRecord(tmp_path / "x.records")
        for i, (path, _) in enumerate(opened.samples):
            assert opened.loader(path).tobytes() == opened[i][0].tobytes()
        even = ImageFolderRecord(opened.records_path, split="even", is_valid_file=lambda file: file.endswith("m.jpg"))
        assert even.targets == [2]
