"""The forms of ImageNet's raw data that are not its archives, and the lists that come with each form.

* The development kit has the synonyms of each WNID, and the WNID of each validation image. torchvision keeps both in
  ``meta.bin``; both files give exactly what torchvision makes of them (torchvision/datasets/imagenet.py,
  `parse_devkit_archive` and `load_meta_file`).
* Kaggle's imagenet-object-localization-challenge: images and lists, extracted or in its archive. ``val`` is one folder
  without classes. ``LOC_val_solution.csv`` says which class each image has; ``LOC_synset_mapping.txt`` has the names of
  the classes.
* Hugging Face's ILSVRC/imagenet-1k: Parquet shards, of which each row is an image and its label.
"""

import csv
import functools
import io
import os
import pickle
import re
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo.errors import SourceError
from recordzoo.raw.archive import ArchiveSource
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource

DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"
META_BIN = "meta.bin"
META_MAT = "ILSVRC2012_devkit_t12/data/meta.mat"
GROUND_TRUTH = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"

SIDECARS = (META_BIN, META_MAT, GROUND_TRUTH)


@functools.cache
def all_wnids() -> tuple[str, ...]:
    """Return the 1,000 WNIDs of ImageNet's classes, sorted: the place of each is its label.

    Sources of ``imagenet_wnids.txt``: hendrycks/imagenet-r eval.py and hendrycks/natural-adv-examples
    eval_many_models.py, the same list; HaohanWang/ImageNet-Sketch scripts/sketchPath.txt gives 996 of them the same
    labels, and mixes up two pairs of classes that share a name.
    """
    return tuple(Path(__file__).with_name("imagenet_wnids.txt").read_text(encoding="ascii").split())


@dataclass(frozen=True, slots=True)
class Meta:
    """The contents of the development kit.

    Attributes:
        synonyms: For each of the 1,000 WNIDs its names: ``("tench", "Tinca tinca")``.
        val_wnids: The WNIDs of the validation images, in the order of their sorted names.
    """

    synonyms: Mapping[str, tuple[str, ...]]
    val_wnids: tuple[str, ...]


def meta_source(root: Path) -> Source | None:
    """Find ``meta.bin`` or the development kit under `root`, the first as torchvision does."""
    if os.path.isfile(root / META_BIN):  # also False where nothing may be read
        return TreeSource(root, [META_BIN])
    return ArchiveSource(root / DEVKIT) if os.path.isfile(root / DEVKIT) else None


def read_meta(root: Path) -> Meta | None:
    """Read the file that `meta_source` finds; None if there is none.

    Raises:
        SourceError: It is there and broken.
    """
    source = meta_source(root.absolute())
    members = () if source is None else (member for unit in source.units(1 << 40) for member in unit.members())
    return parse_meta({member.name: member.read() for member in members if member.name in SIDECARS})


def parse_meta(sidecars: Mapping[str, bytes]) -> Meta | None:
    """Read the files of `SIDECARS` that are there; None if there is none.

    Raises:
        SourceError: A file is broken, or the development kit lacks one.
    """
    if META_BIN in sidecars:
        return _parse_meta_bin(sidecars[META_BIN])
    if META_MAT not in sidecars and GROUND_TRUTH not in sidecars:
        return None
    for name in (META_MAT, GROUND_TRUTH):
        if name not in sidecars:
            raise SourceError(f"{DEVKIT} has no {name}: it is not complete, or not ImageNet's.")
    wnid_of, synonyms = _parse_meta_mat(sidecars[META_MAT])
    try:
        val_wnids = tuple(wnid_of[int(number)] for number in sidecars[GROUND_TRUTH].split())
    except (ValueError, KeyError) as err:
        raise SourceError(f"{GROUND_TRUTH} in {DEVKIT} names a class that {META_MAT} does not have: {err}.") from err
    return Meta(synonyms, val_wnids)


def _parse_meta_mat(data: bytes) -> tuple[dict[int, str], dict[str, tuple[str, ...]]]:
    import scipy.io  # 0.2 s, and only for those who have a development kit
    from scipy.io.matlab import MatReadError

    broken = (ValueError, TypeError, KeyError, IndexError, AttributeError, NotImplementedError, OSError, MemoryError)
    try:
        # By place and not by name, as torchvision reads it: ILSVRC2012_ID, WNID, words, gloss, num_children, ...
        # A .mat file of this version holds numbers, texts and structs; loading it runs nothing.
        mat = scipy.io.loadmat(io.BytesIO(data), squeeze_me=True)  # type: ignore[arg-type,unused-ignore]  # it takes files too
        synsets = mat["synsets"]
        leaves = [synset for synset in synsets.reshape(-1).tolist() if synset[4] == 0]
        wnid_of = {int(number): str(wnid) for number, wnid, *_ in leaves}
        synonyms = {str(wnid): tuple(str(words).split(", ")) for _, wnid, words, *_ in leaves}
    except (*broken, MatReadError, struct.error, zlib.error) as err:
        raise SourceError(f"{META_MAT} in {DEVKIT} is not ImageNet's list of classes: {err!r}.") from err
    return wnid_of, synonyms


def _parse_meta_bin(data: bytes) -> Meta:
    import torch  # the only place in a recipe: the file is torch's own format, and weights_only runs no code from it

    broken = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, IndexError, TypeError, OSError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's guesses about a file that is not torch's
            loaded: Any = torch.load(io.BytesIO(data), weights_only=True)  # Any: whatever it holds; checked below
        synonyms, val_wnids = loaded
        meta = Meta({wnid: tuple(names) for wnid, names in synonyms.items()}, tuple(val_wnids))
        texts = [*meta.synonyms, *(name for names in meta.synonyms.values() for name in names), *meta.val_wnids]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("it holds something else than texts")
    except (*broken, AttributeError, struct.error) as err:
        raise SourceError(
            f"{META_BIN} is not what torchvision's ImageNet writes ({type(err).__name__}: {str(err)[:200]}). "
            f"Remove it, or make it again with torchvision from {DEVKIT}."
        ) from err
    return meta


KAGGLE_ARCHIVE = "imagenet-object-localization-challenge.zip"
KAGGLE_IMAGES = "ILSVRC/Data/CLS-LOC"
SOLUTION = "LOC_val_solution.csv"
_SYNSETS = "LOC_synset_mapping.txt"

_TOP = "ILSVRC/"
_WNID = re.compile(r"n[0-9]{8}")


def kaggle_files(part: str) -> Sequence[str]:
    """Name the lists that a part needs."""
    return (_SYNSETS, SOLUTION) if part == "val" else (_SYNSETS,)


def kaggle_lists(root: Path, part: str) -> TreeSource | None:
    """Find these lists under `root`."""
    names = [name for name in kaggle_files(part) if (root / name).is_file()]
    return TreeSource(root, names) if names else None


def has_labels(lists: TreeSource | None) -> bool:
    """Whether lists say which class a validation image has."""
    return lists is not None and SOLUTION in (lists.names or ())


def kaggle_image_name(name: str, part: str) -> str:
    """Return a member's name without the folders above those of a part's images; "" if it is not below these."""
    start = f"{KAGGLE_IMAGES}/{part}/"
    return name.removeprefix(start) if name.startswith(start) or not name.startswith(_TOP) else ""


def kaggle_val_wnids(sidecars: Mapping[str, bytes]) -> dict[str, str]:
    """Return the WNID of each validation image, by its file's name without the ending.

    Raises:
        SourceError: The list of solutions is broken.
    """
    found = {}
    rows = csv.reader(io.StringIO(sidecars.get(SOLUTION, b"").decode("utf-8", "replace")))
    for number, row in enumerate(rows, 1):
        wnid = row[1].partition(" ")[0] if len(row) == 2 else ""
        if _WNID.fullmatch(wnid):
            found[row[0]] = wnid
        elif row and row[0] != "ImageId":
            raise SourceError(f"{SOLUTION}, line {number}: not an image, a comma, and a WNID with boxes: {row!r:.200}.")
    return found


def kaggle_synonyms(sidecars: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Return the names of each WNID: both in ``n01440764 tench, Tinca tinca``."""
    lines = sidecars.get(_SYNSETS, b"").decode("utf-8", "replace").splitlines()
    pairs = [line.strip().partition(" ") for line in lines if line.strip()]
    return {wnid: tuple(names.split(", ")) for wnid, _, names in pairs}


PARQUET_SPLITS = {"train": "train", "val": "validation"}
PARQUET = ".parquet"

_BATCH_ROWS = 64
_SHARD = re.compile(r"(train|validation)-([0-9]{5})-of-([0-9]{5})\.parquet")
_PATH = re.compile(r"(?:.*/)?([^/]+)_(n[0-9]{8})(\.[A-Za-z]+)")


def shards_source(root: Path, part: str) -> TreeSource | None:
    """Find the shards of a part in ``data`` under `root`, as they are downloaded, or in `root`."""
    for folder in (root / "data", root):
        matches = map(_SHARD.fullmatch, sorted(path.name for path in folder.glob(f"*{PARQUET}")))
        shards = [match[0] for match in matches if match is not None and match[1] == PARQUET_SPLITS[part]]
        if shards:
            return TreeSource(folder, shards)
    return None


def missing_shards(source: TreeSource) -> list[str]:
    """Return the missing shards; each shard's name has the total."""
    there = set(source.names or ())
    match = _SHARD.fullmatch(max(there))
    assert match is not None
    split, total = match[1], int(match[3])
    names = (f"{split}-{number:05d}-of-{total:05d}{PARQUET}" for number in range(total))
    return [name for name in names if name not in there]


def parquet_images(shard: Member) -> Iterator[tuple[str, bytes]]:
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
