"""Hugging Face's form of ImageNet (ILSVRC/imagenet-1k): shards, of which each row is an image and its label."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recordzoo.datasets.imagenet_meta import all_wnids
from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.raw.tree import TreeSource

SPLITS = {"train": "train", "val": "validation"}
ENDING = ".parquet"

_BATCH_ROWS = 64
_SHARD = re.compile(r"(train|validation)-([0-9]{5})-of-([0-9]{5})\.parquet")
_PATH = re.compile(r"(?:.*/)?([^/]+)_(n[0-9]{8})(\.[A-Za-z]+)")


def shards_source(root: Path, part: str) -> TreeSource | None:
    """Find the shards of a part in ``data`` under `root`, as they are downloaded, or in `root`."""
    for folder in (root / "data", root):
        found = {name: match for name in _names(folder) if (match := _SHARD.fullmatch(name)) is not None}
        shards = [name for name, match in found.items() if match[1] == SPLITS[part]]
        if shards:
            return TreeSource(folder, shards)
    return None


def missing_shards(source: TreeSource) -> list[str]:
    """Return the missing shards; each shard's name has the total."""
    there = set(source.names or ())
    match = _SHARD.fullmatch(max(there))
    assert match is not None
    split, total = match[1], int(match[3])
    names = (f"{split}-{number:05d}-of-{total:05d}{ENDING}" for number in range(total))
    return [name for name in names if name not in there]


def images(shard: Member) -> Iterator[tuple[str, bytes]]:
    """Yield the images of a shard: their original name ``<wnid>/<file>``, and their bytes.

    Raises:
        SourceError: The shard is cut or damaged, or has other columns.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        with shard.open() as file, parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(_BATCH_ROWS, columns=["image", "label"]):
                for row in batch.to_pylist():
                    yield _original_name(row, shard), bytes(row["image"]["bytes"])
    except (pyarrow.ArrowException, OSError, KeyError, TypeError) as err:
        raise SourceError(
            f"{shard.name} is no whole shard of ILSVRC/imagenet-1k, with the columns image (bytes, path) and label "
            f"({type(err).__name__}: {str(err)[:200]}). Download it again."
        ) from err


# Any: what the columns hold.
def _original_name(row: dict[str, Any], shard: Member) -> str:
    """Return ``n01440764/n01440764_10026.JPEG`` for the path ``n01440764_10026_n01440764.JPEG`` and the label 0."""
    path, label = row["image"]["path"], row["label"]
    match = _PATH.fullmatch(path or "")
    known = all_wnids()
    if match is None or not 0 <= label < len(known) or known[label] != match[2]:
        raise SourceError(
            f"{shard.name}: the image {path!r} with the label {label} is not called as in ILSVRC/imagenet-1k, "
            "<file>_<wnid>.JPEG with the WNID of its label."
        )
    return f"{match[2]}/{match[1]}{match[3]}"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
