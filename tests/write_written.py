"""Write `tests/written/`: small files of formats whose packages are too large for the tests' own environment.

    python tests/write_written.py tfrecord

with an environment that has the package (`tests/written.txt`), numpy and Pillow; recordzoo is not needed.
`expected.json` says what is in the files: digests of images, labels, classes, splits, other fields.
"""

import hashlib
import io
import json
import lzma
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from write_chunks import WRITERS as CHUNKS
from written_samples import CLASSES, WRITTEN, expect, samples


def tfrecord(folder: Path) -> None:
    """TensorFlow's own writer: ImageNet's keys, three files of two splits. Last written with TensorFlow 2.21.0."""
    import tensorflow as tf

    def feature(value: Any) -> Any:
        if isinstance(value, bytes | str):
            data = value.encode() if isinstance(value, str) else value
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    pairs = samples(12)
    files = {
        "train-00000-of-00002": pairs[:5],
        "train-00001-of-00002": pairs[5:9],
        "validation-00000-of-00001": pairs[9:],
    }
    for name, part in files.items():
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for image, label in part:
                keys = {
                    "image/encoded": image,
                    "image/class/label": label,
                    "image/class/text": CLASSES[label],
                    "image/height": Image.open(io.BytesIO(image)).height,
                    "image/object/bbox": [0.25, 0.5, 0.75, 1.0],
                }
                features = tf.train.Features(feature={key: feature(value) for key, value in keys.items()})
                writer.write(tf.train.Example(features=features).SerializeToString())
    expect(
        "tfrecord",
        pairs,
        splits={"train": list(range(9)), "validation": [9, 10, 11]},
        fields={
            "image_class_text": [CLASSES[label] for _, label in pairs],
            "image_height": [Image.open(io.BytesIO(image)).height for image, _ in pairs],
            "image_object_bbox": [[0.25, 0.5, 0.75, 1.0]] * len(pairs),
        },
    )


def ffcv(folder: Path) -> None:
    """FFCV's own writer: every field, JPEGs and pixels mixed; pixels. Last written with ffcv 1.0.2.

    The smallest page has 2 MiB, nearly all zeros, so the files are compressed.
    """
    import torch
    from ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField, TorchTensorField
    from ffcv.fields.rgb_image import encode_jpeg
    from ffcv.writer import DatasetWriter

    rng = np.random.default_rng(0)
    count = 600
    pictures = [np.full((4 + n % 3, 5, 3), n % 256, np.uint8) for n in range(count)]
    labels = [int(label) for label in rng.integers(0, 5, count)]
    values = [
        (
            picture,
            labels[n],
            n / 4,
            np.frombuffer(f"id-{n}".encode(), np.uint8),
            {"n": n, "text": "ä" * (n % 3)},
            np.arange(n, n + 6, dtype=np.int16).reshape(2, 3),
            torch.full((2,), n, dtype=torch.float32),
        )
        for n, picture in enumerate(pictures)
    ]
    fields = {
        "photo": RGBImageField("smart", smart_threshold=75),
        "label": IntField(),
        "weight": FloatField(),
        "identifier": BytesField(),
        "caption": JSONField(),
        "box": NDArrayField(np.dtype(np.int16), (2, 3)),
        "embedding": TorchTensorField(torch.float32, (2,)),
    }
    files = {"every.beton": (fields, values)}
    for mode in ("raw", "jpg", "proportion"):
        two = {"image": RGBImageField(mode), "label": IntField()}
        files[f"{mode}.beton"] = (two, [(pictures[n], labels[n]) for n in range(12)])
    for name, (kinds, rows) in files.items():
        np.random.seed(0)  # of the mode "proportion"
        path = folder / name
        DatasetWriter(str(path), kinds, page_size=1 << 21, num_workers=1).from_indexed_dataset(rows)
        path.with_name(f"{name}.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    jpegs = [hashlib.blake2b(encode_jpeg(picture, 90), digest_size=8).hexdigest() for picture in pictures[:12]]
    document = {"targets": labels, "jpegs": jpegs}
    (folder.parent / "expected.json").write_text(json.dumps(document) + "\n", encoding="utf-8")


WRITERS: dict[str, Callable[[Path], None]] = {**CHUNKS, "ffcv": ffcv, "tfrecord": tfrecord}


def main(names: list[str]) -> None:
    for name in names or WRITERS:
        folder = WRITTEN / name / "data"
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.mkdir(parents=True)
        WRITERS[name](folder)


if __name__ == "__main__":
    main(sys.argv[1:])
