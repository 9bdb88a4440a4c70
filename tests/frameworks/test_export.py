"""What `export` writes, read with webdataset and datasets: the same samples, sample for sample."""

import gc
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import recordzoo
from tests.exporting import CLASSES, SHARD_BYTES, given, write


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record set with two splits and fields of each kind."""
    return write(tmp_path_factory.mktemp("export") / "a.records", fields=True)


# It leaves the last file of its shards open.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_webdataset(there: Path, tmp_path: Path) -> None:
    import webdataset

    root = recordzoo.export(there, tmp_path / "tar", to="webdataset", shard_bytes=SHARD_BYTES)
    wanted = given(there)
    for split, images in wanted.images.items():
        shards = sorted(map(str, root.glob(f"{split}-*.tar")))
        assert len(shards) > 1
        found = list(webdataset.WebDataset(shards, shardshuffle=False))
        assert [sample.get("jpg", sample.get("png")) for sample in found] == images
        assert [int(sample["cls"]) for sample in found] == wanted.labels[split]
        keys = [name.rpartition(".")[0] for name in wanted.names[split]]
        assert [sample["__key__"] for sample in found] == keys
        for sample, name, fields in zip(found, wanted.names[split], wanted.fields[split], strict=True):
            about = json.loads(sample["json"])
            assert about["name"] == name
            assert about["class"] == CLASSES[fields["target"]]
            assert (about["caption"], about["boxes"]) == (fields["caption"], fields["boxes"])
            assert about["weight"] == fields["weight"]
            assert np.array_equal(np.load(io.BytesIO(sample["corner.npy"])), fields["corner"])
            assert sample["code.bin"] == fields["code"]
            assert np.array_equal(np.load(io.BytesIO(sample["depth.npy"])), fields["depth"])
        decoded = list(webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8").to_tuple("jpg;png", "cls"))
        assert [label for _, label in decoded] == wanted.labels[split]
        gc.collect()
        assert [image.shape[1::-1] for image, _ in decoded] == [Image.open(io.BytesIO(data)).size for data in images]


def test_datasets(there: Path, tmp_path: Path) -> None:
    import datasets

    root = recordzoo.export(there, tmp_path / "parquet", to="parquet", shard_bytes=SHARD_BYTES)
    assert len(list(root.glob("data/train-*-of-00003.parquet"))) == 3
    loaded = datasets.load_dataset(str(root), cache_dir=str(tmp_path / "cache"))
    wanted = given(there)
    assert {split: len(rows) for split, rows in loaded.items()} == {"train": 16, "val": 8}
    for split, rows in loaded.items():
        features = rows.features
        assert features["label"] == datasets.ClassLabel(names=list(CLASSES))
        assert features["image"] == datasets.Image()
        plain = rows.cast_column("image", datasets.Image(decode=False))
        assert [row["bytes"] for row in plain["image"]] == wanted.images[split]
        assert [row["path"] for row in plain["image"]] == [n.rpartition("/")[2] for n in wanted.names[split]]
        assert rows["label"][:] == wanted.labels[split]
        assert rows["name"][:] == wanted.names[split]
        for row, fields in zip(rows, wanted.fields[split], strict=True):
            assert row["image"].size == Image.open(io.BytesIO(fields["image"])).size
            assert (row["caption"], row["boxes"]) == (fields["caption"], fields["boxes"])
            assert (row["weight"], row["corner"]) == (fields["weight"], fields["corner"].tolist())
            assert (row["code"], row["depth"]) == (fields["code"], fields["depth"].tolist())
