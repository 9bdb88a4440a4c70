"""Write the files of MDS and LitData for `tests/written/`: see `tests/write_written.py`."""

import shutil
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from written_samples import CLASSES, expect, samples


def columns_of(values: list[dict[str, Any]], names: list[str]) -> dict[str, list[Any]]:
    """Return the values of some keys as JSON has them."""
    return {name: [value[name] for value in values] for name in names}


def mds(folder: Path) -> None:
    """MDSWriter: splits with shards as they are, and with each compression. Last written with Streaming 0.13.0."""
    from streaming import MDSWriter, StreamingDataset

    pairs = samples(15)
    splits: dict[str, list[int]] = {}
    kinds = {"br:3": 2, "bz2": 2, "gz": 2, "snappy": 2, None: 5, "zstd:7": 2}
    columns = {"image": "bytes", "label": "int", "caption": "str"}
    for kind, count in kinds.items():
        name = "train" if kind is None else kind.partition(":")[0]
        splits[name] = list(range(sum(map(len, splits.values())), sum(map(len, splits.values())) + count))
        place, hashes = str(folder / name), None if kind == "gz" else ["sha1", "xxh64"]
        with MDSWriter(out=place, columns=columns, compression=kind, hashes=hashes, size_limit=2500) as writer:
            for position in splits[name]:
                image, label = pairs[position]
                writer.write({"image": image, "label": label, "caption": f"{CLASSES[label]} \u00e9"})
        with tempfile.TemporaryDirectory() as copy:  # it writes the decompressed shards beside the others
            shutil.copytree(place, copy, dirs_exist_ok=True)
            read = StreamingDataset(local=copy, shuffle=False, batch_size=1)
            assert [(each["image"], each["label"]) for each in read] == [pairs[i] for i in splits[name]]
    captions = [f"{CLASSES[label]} \u00e9" for _, label in pairs]
    expect("mds", pairs, splits=splits, fields={"caption": captions})


def mds_kinds(folder: Path) -> None:
    """MDSWriter: every encoding but pkl, which is in a folder of its own. Last written with Streaming 0.13.0."""
    from streaming import MDSWriter, StreamingDataset

    numbers = [
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ]
    columns = {
        "x": "jpeg",
        "y": "int",
        "bytes": "bytes",
        "name": "str",
        "json": "json",
        "as_png": "png",
        "as_pil": "pil",
        "jpeg_array": "jpeg_array",
        "jpegarray": "jpegarray",
        "list_jpeg": "list[jpeg]",
        "list_png": "list[png]",
        "list_pil": "list[pil]",
        "str_int": "str_int",
        "str_float": "str_float",
        "str_decimal": "str_decimal",
        "array": "ndarray",
        "array_of": "ndarray:float32",
        "array_like": "ndarray:int16:2,3",
        **{number: number for number in numbers},
    }
    pairs = [pair for pair in samples(12) if pair[0][:2] == b"\xff\xd8"][:3]
    written = []
    with MDSWriter(out=str(folder), columns=columns) as writer:
        for number, (image, label) in enumerate(pairs):
            small = Image.fromarray(np.full((2, 3), 40 * number, np.uint8))
            sample = {
                "x": image,
                "y": label,
                "bytes": bytes([number, 255, 0]),
                "name": f"name {number}",
                "json": {"a": [number, None, 1.5]},
                "as_png": small,
                "as_pil": small.convert("RGB"),
                "jpeg_array": [image, image],
                "jpegarray": [image],
                "list_jpeg": [small],
                "list_png": [small, small],
                "list_pil": [small, small.convert("RGB")],
                "str_int": 10**12 + number,
                "str_float": number / 3,
                "str_decimal": Decimal(f"1.00000000000000000000{number}"),
                "array": np.arange(3 + number, dtype=np.int16),
                "array_of": np.full((1, 2), number, np.float32),
                "array_like": np.full((2, 3), -number, np.int16),
                **{each: getattr(np, each)(100 + number) for each in numbers},
            }
            writer.write(sample)
            written.append(sample)
    with MDSWriter(out=str(folder.parent / "pickled"), columns={"image": "bytes", "extra": "pkl"}) as writer:
        writer.write({"image": pairs[0][0], "extra": {"a": 1}})
    for sample, read in zip(written, StreamingDataset(local=str(folder), shuffle=False, batch_size=1), strict=True):
        for key in (
            "y",
            "bytes",
            "name",
            "json",
            "str_int",
            "str_float",
            "str_decimal",
            "as_pil",
            "list_pil",
            *numbers,
        ):
            assert read[key] == sample[key], key
        for key in ("array", "array_of", "array_like"):
            np.testing.assert_array_equal(read[key], sample[key])
        assert read["as_png"].tobytes() == sample["as_png"].tobytes()
        assert len(read["jpeg_array"]) == 2
    fields: dict[str, list[Any]] = columns_of(written, ["json", "str_int", "str_float"])
    fields |= {key: [sample[key].item() for sample in written] for key in numbers}
    fields |= {key: [sample[key].tolist() for sample in written] for key in ("array", "array_of", "array_like")}
    fields |= {"field_name": [sample["name"] for sample in written]}
    fields |= {"str_decimal": [str(sample["str_decimal"]) for sample in written]}
    expect("mds_kinds", pairs, fields=fields)


def litdata(folder: Path) -> None:
    """litdata.optimize: chunks as they are, and compressed in each way. Last written with LitData 0.2.76."""
    from litdata import StreamingDataset, optimize

    pairs = [pair for pair in samples(16) if pair[0][:2] == b"\xff\xd8"][:11]
    splits: dict[str, list[int]] = {}
    kinds = {"batch": ("zstd", "batch", 2), "chunk": ("zstd", "chunk", 2), "sample": ("zstd", "sample", 2)}
    for name, (compression, level, count) in (kinds | {"train": (None, None, 5)}).items():
        start = sum(map(len, splits.values()))
        splits[name] = list(range(start, start + count))
        place = str(folder / name)
        inputs = [(as_file(pairs[position][0]), pairs[position][1]) for position in splits[name]]
        optimize(
            litdata_sample,
            inputs,
            place,
            chunk_size=3,
            num_workers=1,
            compression=compression,
            compression_level=level,
            compression_batch_size=1 if level == "batch" else None,
        )
        with tempfile.TemporaryDirectory() as copy:  # it puts the decompressed chunk in the place of the other one
            shutil.copytree(place, copy, dirs_exist_ok=True)
            read = list(StreamingDataset(copy, shuffle=False))
        assert [label for _, label, _ in read] == [label for _, label in inputs]
        assert [text for *_, text in read] == [CLASSES[label] for _, label in inputs]
    expect("litdata", pairs, splits=splits, fields={"field_2": [CLASSES[label] for _, label in pairs]})


def as_file(image: bytes) -> str:
    """Return a file's path: LitData keeps the bytes of a JPEG that was opened by name, and encodes others anew."""
    with tempfile.NamedTemporaryFile(suffix=".jpg", delete=False) as file:
        file.write(image)
    return file.name


def litdata_sample(pair: tuple[str, int]) -> Any:
    path, label = pair
    return Image.open(path), label, CLASSES[label]


def litdata_rows(folder: Path) -> None:
    """litdata.optimize of dicts without images of Pillow: rows of Arrow. Last written with LitData 0.2.76."""
    from litdata import StreamingDataset, optimize

    pairs = samples(5)
    rows = [
        {
            "image": {"bytes": image, "path": None},
            "label": label,
            "boxes": [[0.5] * number for _ in range(number)],
            "about": {"class": CLASSES[label]},
        }
        for number, (image, label) in enumerate(pairs)
    ]
    for name, compression, part in (("test", "zstd", rows[:2]), ("train", None, rows[2:])):
        optimize(litdata_same, part, str(folder / name), chunk_size=2, num_workers=1, compression=compression)
        assert list(StreamingDataset(str(folder / name), shuffle=False)) == part
    fields = {"boxes": [row["boxes"] for row in rows], "about_class": [CLASSES[label] for _, label in pairs]}
    expect("litdata_rows", pairs, splits={"test": [0, 1], "train": [2, 3, 4]}, fields=fields)


def litdata_same(sample: Any) -> Any:
    return sample


def litdata_kinds(folder: Path) -> None:
    """litdata.optimize: every serializer of images, numbers and text. Last written with LitData 0.2.76."""
    import torch
    from litdata import StreamingDataset, optimize

    pairs = [pair for pair in samples(12) if pair[0][:2] == b"\xff\xd8"][:3]
    rows = [litdata_kinds_sample(number, image, label) for number, (image, label) in enumerate(pairs)]
    optimize(litdata_same, rows, str(folder), chunk_size=2, num_workers=1)
    pickled = [(rows[0]["pil"], {1, 2})]
    optimize(litdata_same, pickled, str(folder.parent / "pickled"), chunk_size=2, num_workers=1)
    for read, row in zip(StreamingDataset(str(folder), shuffle=False), rows, strict=True):
        for key in ("label", "text", "flag", "number", "pil", "bytes", "lists", "json"):
            assert read[key] == row[key], key
        for key in ("tensor", "flat_tensor"):
            assert torch.equal(read[key], row[key])
        for key in ("array", "flat_array"):
            np.testing.assert_array_equal(read[key], row[key])
        assert len(read["jpegs"]) == 2
        assert read["file"] == row["bytes"]
    fields: dict[str, list[Any]] = columns_of(rows, ["text", "flag", "number", "json"])
    fields |= {key: [row[key].tolist() for row in rows] for key in ("tensor", "flat_tensor", "array", "flat_array")}
    fields |= {f"lists_{i}": [row["lists"][i] for row in rows] for i in range(2)}
    expect("litdata_kinds", pairs, fields=fields)


def litdata_kinds_sample(number: int, image: bytes, label: int) -> dict[str, Any]:
    import torch
    from litdata import File
    from litdata import Image as Encoded

    picture = Image.open(as_file(image))
    return {
        "image": picture,
        "label": label,
        "text": CLASSES[label],
        "flag": number == 1,
        "number": number / 3,
        "pil": Image.fromarray(np.full((2, 3), 40 * number, np.uint8)),
        "jpegs": [picture, picture],
        "bytes": bytes([number, 255]),
        "file": File(bytes=bytes([number, 255])),
        "encoded": Encoded(bytes=samples(4)[3][0]),
        "tensor": torch.full((2, 3), number, dtype=torch.int16),
        "flat_tensor": torch.arange(3, dtype=torch.float32) + number,
        "array": np.full((1, 2), number, np.float16),
        "flat_array": np.arange(4) - number,
        "lists": (number, 7),
        "json": [{"a": number, "b": None, "c": "x"}, {"a": 1, "b": True, "c": "y"}],
    }


WRITERS: dict[str, Callable[[Path], None]] = {
    "mds": mds,
    "mds_kinds": mds_kinds,
    "litdata": litdata,
    "litdata_rows": litdata_rows,
    "litdata_kinds": litdata_kinds,
}
