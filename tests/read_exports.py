"""Read what `recordzoo export --to tfrecord` wrote with TensorFlow, in an environment that has it; print it as JSON.

    python read_exports.py FOLDER

Each sample: the image's digest, its size as the library decodes it, its label, and the other values.
"""

import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def tfrecord(folder: Path) -> dict[str, list[dict[str, Any]]]:
    import tensorflow as tf

    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.tfrecord")):
        for record in tf.data.TFRecordDataset(str(path)):
            features = tf.train.Example.FromString(record.numpy()).features.feature
            values = {key: _values(feature) for key, feature in features.items()}
            (image,) = features["image/encoded"].bytes_list.value
            values["image/encoded"] = digest(image)
            values["size"] = tf.io.decode_image(image).shape[:2].as_list()
            found.setdefault(path.name.partition("-")[0], []).append(values)
    return found


def _values(feature: Any) -> list[Any]:
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    return [value.decode("latin-1") if isinstance(value, bytes) else value for value in values]


if __name__ == "__main__":
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
    print(json.dumps(tfrecord(Path(sys.argv[1]))))
