"""Read what `recordzoo export` wrote with the format's own library, in an environment that has it; print it as JSON.

    python read_exports.py tfrecord FOLDER
    python read_exports.py mds FOLDER

Each sample: the image's digest, its size as the library decodes it, its label, and the other values.
"""

import hashlib
import io
import json
import sys
from collections.abc import Callable
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


def mds(folder: Path) -> dict[str, list[dict[str, Any]]]:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    found = {}
    for index in sorted(folder.glob("**/index.json")):
        clean_stale_shared_memory()
        dataset = StreamingDataset(local=str(index.parent), batch_size=1, shuffle=False)
        rows = []
        for number in range(len(dataset)):
            sample = dataset[number]
            row = {key: _plain(value) for key, value in sample.items() if key != "image"}
            image = sample["image"]
            row["size"] = [image.height, image.width]
            image.fp.seek(0)
            row["image"] = digest(image.fp.read())
            rows.append(row)
        found["" if index.parent == folder else index.parent.name] = rows
    return found


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return value.decode("latin-1") if isinstance(value, bytes) else value


READERS: dict[str, Callable[[Path], dict[str, list[dict[str, Any]]]]] = {"tfrecord": tfrecord, "mds": mds}

if __name__ == "__main__":
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
    print(json.dumps(READERS[sys.argv[1]](Path(sys.argv[2]))))
