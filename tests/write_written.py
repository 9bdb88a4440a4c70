"""Write `tests/written/tfrecord`: small files of TensorFlow, which is too large for the tests' own environment.

    python tests/write_written.py

with an environment that has TensorFlow (`tests/tensorflow.txt`), numpy and Pillow; recordzoo is not needed.
`expected.json` says what is in the files: digests of images, labels, classes, splits, other fields.
"""

import hashlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WRITTEN = Path(__file__).parent / "written"
CLASSES = ["ant", "bee", "cat", "dog", "eel"]


def samples(count: int) -> list[tuple[bytes, int]]:
    """Make small encoded pictures, most JPEG, some PNG, with labels."""
    rng = np.random.default_rng(count)
    made = []
    for number in range(count):
        buffer = io.BytesIO()
        image = Image.fromarray(rng.integers(0, 255, (6 + number % 3, 8, 3), np.uint8))
        image.save(buffer, "PNG" if number % 4 == 3 else "JPEG")
        made.append((buffer.getvalue(), int(rng.integers(len(CLASSES)))))
    return made


def expect(name: str, pairs: list[tuple[bytes, int]], **more: Any) -> None:
    """Write what an import of the files must have."""
    document = {
        "images": [hashlib.blake2b(image, digest_size=8).hexdigest() for image, _ in pairs],
        "targets": [label for _, label in pairs],
        **more,
    }
    (WRITTEN / name / "expected.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


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


def main() -> None:
    folder = WRITTEN / "tfrecord" / "data"
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    tfrecord(folder)


if __name__ == "__main__":
    main()
