"""Arrays of one dtype and any shapes stay what they are: whichever way they come in, and through whatever they go."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2

import recordzoo
from recordzoo import RecordLoader, RecordReader, RecordWriter, convert
from recordzoo.errors import ArgumentError, SampleError
from recordzoo.records.verify import verify
from tests.fakes.samples import jpeg
from tests.preparing import prepared


def boxes(*counts: int | None, dtype: str = "f4", shape: tuple[int, ...] = (4,)) -> list[Any]:
    """Arrays [count, *shape], None for None."""
    return [
        None if count is None else (np.arange(count * int(np.prod(shape))).reshape(count, *shape) + n).astype(dtype)
        for n, count in enumerate(counts)
    ]


ODD = np.array([[np.nan, np.inf], [-np.inf, -0.0]], "f4")
ODD[0, 0:1].view("u4")[:] = 0x7FC01234  # a NaN with bits of its own

VALUES: dict[str, list[Any]] = {
    "boxes": boxes(2, 0, 1, 3, 0, 2),
    "the first is empty": boxes(0, 0, 2, 1, 1, 0),
    "only the last has another shape": boxes(2, 2, 2, 2, 2, 5),
    "None first": boxes(None, None, 2, 1, 0, 2),
    "None last": boxes(2, 2, 2, 2, 2, None),
    "None but for the last": boxes(None, None, None, None, None, 3),
    "alike but for None": boxes(1, 1, None, 1, 1, 1),
    "NaN": [ODD, ODD[:1], ODD[:0], None, ODD[:, ::-1].copy(), ODD],
    "float16": boxes(2, 0, 1, 3, 0, 2, dtype="f2"),
    "bool": boxes(2, 0, 1, 3, 0, 2, dtype="?", shape=()),
    "uint8": boxes(2, 0, 90, 3, 0, 2, dtype="u1"),
    "uint64": [each + np.uint64(1 << 63) for each in boxes(2, 0, 1, 3, 0, 2, dtype="u8", shape=())],
    "two sizes": [np.full((n % 3 + 1, n + 2), n, np.uint16) for n in range(6)],
    "tensors": [None if n == 0 else torch.full((n % 3, 4), n / 2) for n in range(6)],
}
COUNT = 6
# Here "boxes" are arrays of all kinds.
pytestmark = pytest.mark.filterwarnings("ignore:.* moves the image, but not target_type 'boxes'")

TO_TENSOR = v2.Compose([v2.Resize((8, 8)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])


def same(found: Any, given: Any) -> None:
    """The same type, dtype, shape and bytes."""
    assert type(found) is type(given)
    if given is None:
        return
    found, given = np.asarray(found), np.asarray(given)
    assert (found.dtype, found.shape, found.tobytes()) == (given.dtype, given.shape, given.tobytes())


def by_convert(values: Sequence[Any], path: Path) -> Path:
    return convert([(jpeg(n), n, value) for n, value in enumerate(values)], path, fields=("image", "target", "boxes"))


def by_target(values: Sequence[Any], path: Path) -> Path:
    labels = [None if value is None else np.arange(len(value)) for value in values]
    targets = [{"boxes": value, "labels": label} for value, label in zip(values, labels, strict=True)]
    return convert([(jpeg(n), target) for n, target in enumerate(targets)], path)


def by_writer(values: Sequence[Any], path: Path) -> Path:
    with RecordWriter(path) as writer:
        for n, value in enumerate(values):
            writer.write({"image": jpeg(n), "target": n, "boxes": value})
    return path


def wanted_of(value: Any) -> Any:
    return None if value is None else np.asarray(value)


@pytest.mark.parametrize("way", [by_convert, by_target, by_writer])
@pytest.mark.parametrize("name", VALUES)
def test_they_come_in(name: str, way: Callable[[Sequence[Any], Path], Path], tmp_path: Path) -> None:
    values = VALUES[name]
    reader = RecordReader(way(values, tmp_path / "my.records"))
    assert "json" not in {spec.encoding for spec in reader.manifest.blobs.values()}
    for n, value in enumerate(values):
        same(reader[n]["boxes"], wanted_of(value))
        same(reader.value("boxes", n), wanted_of(value))
        assert reader.read("image", n) == jpeg(n)
    assert verify(reader.path, full=True).ok
    loader = RecordLoader(
        recordzoo.open(reader.path, transform=TO_TENSOR, target_type="boxes"), batch_size=2, num_workers=0
    )
    batches = [batch for _, batch in loader]
    for n, value in enumerate(values):
        same(loader.dataset[n][1], value)
        same(batches[n // 2][n % 2], None if value is None else torch.as_tensor(value))


FIELDS = {name.lower().replace(" ", "_").replace("none", "no"): values for name, values in VALUES.items()}


def written(path: Path, fields: Mapping[str, Sequence[Any]] = FIELDS, first: int = 0) -> Path:
    """A record set with all values, a field for each row of the table."""
    with RecordWriter(path) as writer:
        for n in range(COUNT):
            values = {name: values[n] for name, values in fields.items()}
            writer.write({"name": f"{first + n}.jpg", "image": jpeg(n), "target": n, **values})
    return path


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("arrays") / "all.records")


def check(path: Path, positions: Sequence[int] = range(COUNT)) -> None:
    reader = RecordReader(path)
    assert len(reader) == len(positions)
    for place, n in enumerate(positions):
        record = reader[place]
        for name, values in FIELDS.items():
            same(record[name], wanted_of(values[n]))
    assert verify(path, full=True).ok


def by_export(to: str, **options: Any) -> Callable[[Path, Path], Path]:
    def way(path: Path, folder: Path) -> Path:
        exported = recordzoo.export(path, folder / to, to=to)
        return prepared(exported, folder / f"{to}.records", from_=to, **options)

    return way


THROUGH: dict[str, tuple[Callable[[Path, Path], Path], Sequence[int]]] = {
    "webdataset": (by_export("webdataset", fields={f"{name}.npy": name for name in FIELDS}), range(COUNT)),
    "copy": (lambda path, folder: recordzoo.copy(path, folder / "copy.records"), range(COUNT)),
    "subset": (
        lambda path, folder: recordzoo.subset(path, output=folder / "some.records", indices=[5, 1, 0]),
        (5, 1, 0),
    ),
    "merge": (
        lambda path, folder: recordzoo.merge([path, written(folder / "b.records", first=9)], folder / "m.records"),
        (*range(COUNT), *range(COUNT)),
    ),
}


@pytest.mark.parametrize("name", THROUGH)
def test_they_go_through(name: str, there: Path, tmp_path: Path) -> None:
    way, positions = THROUGH[name]
    check(way(there, tmp_path), positions)


def test_a_batch_has_a_list_for_each_key_of_a_target(tmp_path: Path) -> None:
    values = VALUES["tensors"]
    samples = [(jpeg(n), {"boxes": v, "number": torch.tensor(n)}) for n, v in enumerate(values)]
    dataset = recordzoo.open(convert(samples, tmp_path / "a.records"), transform=TO_TENSOR)
    ((_, target),) = RecordLoader(dataset, batch_size=COUNT, num_workers=0)
    assert target["number"].tolist() == list(range(COUNT))
    for found, value in zip(target["boxes"], values, strict=True):
        same(found, value)


def test_numbers_with_none_are_the_error_of_a_dataloader(tmp_path: Path) -> None:
    place = convert([(jpeg(n), (None, n)[n % 2]) for n in range(6)], tmp_path / "a.records")
    for kind in (DataLoader, RecordLoader):
        with pytest.raises(TypeError, match="NoneType"):
            list(kind(recordzoo.open(place, transform=TO_TENSOR), 3))


def test_a_dict_comes_back_as_it_was(tmp_path: Path) -> None:
    targets = [
        {"boxes": torch.zeros(0, 4), "image_id": torch.tensor(7), "name": "a", "Score.x": np.float32(0.5)},
        {"boxes": torch.ones(2, 4), "image_id": torch.tensor(8), "name": None, "Score.x": np.float32(np.nan)},
        {"boxes": torch.ones(1, 4), "image_id": torch.tensor(9), "Score.x": np.float32(2)},
        None,
    ]
    dataset = recordzoo.open(convert([(jpeg(n), each) for n, each in enumerate(targets)], tmp_path / "a.records"))
    fields = RecordReader(tmp_path / "a.records").manifest.fields
    assert sorted(fields) == ["boxes", "field_name", "image", "image_id", "score_x"]
    for n, given in enumerate(targets[:3]):
        found = dataset[n][1]
        assert found.keys() == {"boxes", "image_id", "name", "Score.x"}
        same(found["boxes"], given["boxes"])
        same(found["image_id"], given["image_id"])
        assert found["name"] == given.get("name")
        assert np.array_equal(found["Score.x"], given["Score.x"], equal_nan=True)
    assert dataset[3][1] is None


def test_a_dict_that_comes_late(tmp_path: Path) -> None:
    samples = [(jpeg(0), {"boxes": np.ones((2, 4), "f4")} if n == 71 else None) for n in range(171)]
    reader = RecordReader(convert(samples, tmp_path / "a.records"))
    assert {*reader.manifest.blobs} == {"image", "boxes"}
    same(recordzoo.open(reader.path)[71][1]["boxes"], np.ones((2, 4), "f4"))


def test_rows_become_values_when_a_shape_comes_late(tmp_path: Path) -> None:
    """More rows than a side file has; of an array, and of numbers that get a None."""
    points = [np.full((2 + (n > 700), 2), n, "f8") for n in range(800)]
    with RecordWriter(tmp_path / "a.records") as writer:
        for n, each in enumerate(points):
            writer.write({"image": jpeg(0), "points": each, "score": None if n == 600 else n / 2, "size": n})
    reader = RecordReader(tmp_path / "a.records")
    assert reader.columns == ["size"]
    for n, each in enumerate(points):
        same(reader[n]["points"], each)
    assert [record["score"] for record in reader] == [None if n == 600 else n / 2 for n in range(800)]
    assert reader.array("size").tolist() == list(range(800))
    assert verify(reader.path, full=True).ok


@pytest.mark.parametrize(
    "other", [np.zeros((1, 4)), np.zeros(4, "f4"), 1.0], ids=["another dtype", "fewer dimensions", "a float"]
)
@pytest.mark.parametrize("place", [0, 5, 101])
def test_arrays_of_one_field_have_one_dtype(place: int, other: Any, tmp_path: Path) -> None:
    values = [np.ones((n % 3, 4), "f4") for n in range(200)]
    values[place] = other
    with pytest.raises(SampleError, match=f"^position {place or r'.*'}.*'boxes' holds a ") as caught:
        convert([(jpeg(0), each) for each in values], tmp_path / "a.records", fields=("image", "boxes"), workers=1)
    assert caught.value.position is not None
    with RecordWriter(tmp_path / "b.records") as writer:
        for value in values[: place or 1]:
            writer.write({"image": jpeg(0), "boxes": value})
        with pytest.raises(SampleError, match=f"^position {place or 1}: 'boxes' holds a "):
            writer.write({"image": jpeg(0), "boxes": values[place or 1]})
        writer.write({"image": jpeg(0), "boxes": values[0]})


def test_sets_that_store_a_field_in_two_ways_say_what_helps(tmp_path: Path) -> None:
    one, other = by_writer(boxes(1, 1), tmp_path / "a.records"), by_writer(boxes(1, 2), tmp_path / "b.records")
    with pytest.raises(ArgumentError, match=r"kinds=\{'boxes': 'raw'\}"):
        recordzoo.merge([one, other], tmp_path / "c.records")


@pytest.mark.parametrize("is_parquet", [False, True])
def test_they_go_through_datasets(is_parquet: bool, there: Path, tmp_path: Path) -> None:
    """As the features `Array2D`, lists of numbers; what has two sizes becomes lists of lists, which are JSON."""
    import datasets

    rows = recordzoo.to_hf(there, cache_dir=tmp_path / "cache")
    assert rows.features["boxes"] == datasets.Array2D((None, 4), "float32")
    if is_parquet:
        recordzoo.export(there, tmp_path / "saved", to="parquet")
    else:
        rows.save_to_disk(tmp_path / "saved")
    reader = RecordReader(prepared(tmp_path / "saved", tmp_path / "again.records"))
    for name, values in FIELDS.items():
        for n, value in enumerate(values):
            if name == "two_sizes":
                assert reader[n][name] == value.tolist()
            else:
                same(reader[n][name], wanted_of(value))
    numbers = rows.select_columns(["image", "boxes"]).with_format("numpy")
    reader = RecordReader(convert([numbers[n] for n in range(COUNT)], tmp_path / "numpy.records", workers=1))
    for n, value in enumerate(FIELDS["boxes"]):
        same(reader[n]["boxes"], value)
