"""Write `tests/written/`: small files of TensorFlow, which is too large for the tests' own environment.

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


# Any: a feature of TensorFlow, and what is put into it.
def feature(value: Any, kind: type = int) -> Any:
    """Make a feature of a value, or of a list; `kind` is that of an empty list."""
    import tensorflow as tf

    values = value if isinstance(value, list) else [value]
    kind = type(values[0]) if values else kind
    if kind in (bytes, str):
        found = [each.encode() if isinstance(each, str) else each for each in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=found))
    if kind is float:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def tfrecord(folder: Path) -> None:
    """TensorFlow's own writer: ImageNet's keys, three files of two splits. Last written with TensorFlow 2.21.0."""
    import tensorflow as tf

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


def objects(folder: Path) -> None:
    """Files of the Object Detection API, with its keys (create_pascal_tf_record.py), compressed with gzip."""
    import tensorflow as tf

    pairs = samples(7)
    boxes = [[(0.25 * (n % 3), 0.5, 0.125 * n, 1.0) for n in range(number % 3)] for number in range(len(pairs))]
    texts = [[CLASSES[n] for n in range(len(each))] for each in boxes]
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(str(folder / "pascal_train.record-00000-of-00001"), options) as writer:
        for (image, _), each, names in zip(pairs, boxes, texts, strict=True):
            keys = {
                "image/encoded": feature(image),
                "image/filename": feature("a.jpg"),
                **{
                    f"image/object/bbox/{side}": feature([box[place] for box in each], float)
                    for place, side in enumerate(("xmin", "ymin", "xmax", "ymax"))
                },
                "image/object/class/text": feature(names, str),
                "image/object/class/label": feature([CLASSES.index(name) for name in names]),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=keys)).SerializeToString())
    fields = {
        "image_object_bbox_xmin": [[box[0] for box in each] or None for each in boxes],
        "image_object_class_text": [names or None for names in texts],
        "image_object_class_label": [[CLASSES.index(name) for name in names] or None for names in texts],
    }
    expect(folder.parent.name, pairs, targets=None, fields=fields)


def sequences(folder: Path) -> None:
    """`SequenceExample`s: a picture, and numbers and words for each step."""
    import tensorflow as tf

    pairs = samples(6)
    with tf.io.TFRecordWriter(str(folder / "clips.tfrecord")) as writer:
        for number, (image, label) in enumerate(pairs):
            lists = {
                "words": [feature(f"w{step}") for step in range(1 + number % 3)],
                "positions": [feature([step / 2, 1.0]) for step in range(1 + number % 3)],
                "times": [feature(step) for step in range(1 + number % 3)],
            }
            message = tf.train.SequenceExample(
                context=tf.train.Features(feature={"image": feature(image), "label": feature(label)}),
                feature_lists=tf.train.FeatureLists(
                    feature_list={key: tf.train.FeatureList(feature=steps) for key, steps in lists.items()}
                ),
            )
            writer.write(message.SerializeToString())
    counts = [1 + number % 3 for number in range(len(pairs))]
    fields = {
        "words": [[f"w{step}" for step in range(count)] for count in counts],
        "positions": [[[step / 2, 1.0] for step in range(count)] for count in counts],
        "times": [list(range(count)) for count in counts],
    }
    expect(folder.parent.name, pairs, fields=fields)


WRITERS = {"tfrecord": tfrecord, "tfrecord-objects": objects, "tfrecord-sequences": sequences}


def main() -> None:
    for name, write in WRITERS.items():
        folder = WRITTEN / name / "data"
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.mkdir(parents=True)
        write(folder)


if __name__ == "__main__":
    main()
