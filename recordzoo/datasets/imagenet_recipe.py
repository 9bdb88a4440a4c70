"""How ImageNet (ILSVRC2012) becomes records: `imagenet.train.records` and `imagenet.val.records`.

Training needs nothing but the images: the inner archives, or the folders, are named by their WNIDs. Validation images
get theirs from the development kit (or torchvision's ``meta.bin``, or Kaggle's lists), unless a tree has them sorted
already. Whatever the form of the raw data, an image is stored under the key ``<wnid>/<file>``, or ``<file>`` until its
WNID is known. Its forms, and the lists that come with each:

* The archives, or torchvision's tree. The development kit has the synonyms of each WNID, and the WNID of each
  validation image. torchvision keeps both in ``meta.bin``; both files give exactly what torchvision makes of them
  (torchvision/datasets/imagenet.py, `parse_devkit_archive` and `load_meta_file`).
* Kaggle's imagenet-object-localization-challenge: images and lists, extracted or in its archive. ``val`` is one folder
  without classes. ``LOC_val_solution.csv`` says which class each image has; ``LOC_synset_mapping.txt`` has the names of
  the classes.
* Hugging Face's ILSVRC/imagenet-1k: Parquet shards, of which each row is an image and its label.

The test sets for its models follow: other class folders, and other labels.
"""

import csv
import dataclasses
import functools
import io
import json
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

import numpy as np
from typing_extensions import override

from recordzoo.base.text import JSON, counted, name_first
from recordzoo.errors import SourceError
from recordzoo.raw.archive import ArchiveSource, ChainSource, NestedTarSource
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import (
    ClassFolderRecipe,
    DeclaredRecipe,
    class_folder_order,
    class_labels,
    files_under,
    is_apple_double,
    is_class_image,
    is_image,
)
from recordzoo.recipes.recipe import INCOMPLETE, Blob, Sidecar, Stored, Table
from recordzoo.records.manifest import BlobSpec

DOWNLOAD_PAGE = "https://image-net.org/challenges/LSVRC/2012/2012-downloads.php"

_NUMBER = re.compile(r"ILSVRC2012_val_([0-9]{8})\.JPEG")

_first = functools.partial(name_first, most=10)

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
_KAGGLE_TOP = "ILSVRC/"
KAGGLE_IMAGES = f"{_KAGGLE_TOP}Data/CLS-LOC"
SOLUTION = "LOC_val_solution.csv"
_SYNSETS = "LOC_synset_mapping.txt"

_KAGGLE_LISTS = {"train": (_SYNSETS,), "val": (_SYNSETS, SOLUTION)}
_WNID = re.compile(r"n[0-9]{8}")


def _kaggle_val_wnids(sidecars: Mapping[str, bytes]) -> dict[str, str]:
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


def _kaggle_synonyms(sidecars: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    """Return the names of each WNID: both in ``n01440764 tench, Tinca tinca``."""
    lines = sidecars.get(_SYNSETS, b"").decode("utf-8", "replace").splitlines()
    pairs = [line.strip().partition(" ") for line in lines if line.strip()]
    return {wnid: tuple(names.split(", ")) for wnid, _, names in pairs}


PARQUET_SPLITS = {"train": "train", "val": "validation"}
PARQUET = ".parquet"

_BATCH_ROWS = 64
_SHARD = re.compile(r"(train|validation)-([0-9]{5})-of-([0-9]{5})\.parquet")
_PATH = re.compile(r"(?:.*/)?([^/]+)_(n[0-9]{8})(\.[A-Za-z]+)")


def _shards(root: Path, part: str) -> tuple[TreeSource, list[str]] | None:
    """Find the shards of a part in ``data`` under `root`, as they are downloaded, or in `root`; name missing ones.

    Each shard's name has the total.
    """
    for folder in (root / "data", root):
        matches = map(_SHARD.fullmatch, sorted(path.name for path in folder.glob(f"*{PARQUET}")))
        there = [match for match in matches if match is not None and match[1] == PARQUET_SPLITS[part]]
        if there:
            names = [match[0] for match in there]
            split, total = there[-1][1], int(there[-1][3])
            every = (f"{split}-{number:05d}-of-{total:05d}{PARQUET}" for number in range(total))
            return TreeSource(folder, names), [name for name in every if name not in names]
    return None


def _parquet_images(shard: Member) -> Iterator[tuple[str, bytes]]:
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


class ImageNet(DeclaredRecipe):
    """One split; labels are places in the sorted WNIDs, the order is ImageFolder's over ``<part>/<wnid>/``."""

    _missing_shards: Sequence[str] = ()

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        return [f"{self.part}/<wnid>/"]

    @override
    def find(self, root: Path) -> Source | None:
        meta = meta_source(root)
        lists = [name for name in _KAGGLE_LISTS[self.part] if (root / name).is_file()]
        images = self._images(root, self.part == "train" or meta is not None or SOLUTION in lists)
        if images is not None:
            others = meta or (TreeSource(root, lists) if lists else None)
            return images if others is None else ChainSource([images, others])
        found = _shards(root, self.part)
        if found is None:
            return None
        self._check_package("pyarrow")
        shards, self._missing_shards = found
        return shards if meta is None else ChainSource([shards, meta])

    def _images(self, root: Path, is_labelled: bool) -> Source | None:
        """Find image files or archives; those without class folders only if the labels are known from elsewhere."""
        # The first is that of Kaggle and of unzip tools.
        for tree in (root / self.part / self.part, root / self.part, root / KAGGLE_IMAGES / self.part):
            found, _ = _look(tree)
            if found == "sorted":
                return TreeSource(tree, wanted=is_class_image)
            if found == "flat" and self.part == "val" and is_labelled:
                return TreeSource(tree)
        archive = root / self.raw_files[0].name
        if archive.is_file() and is_labelled:
            return NestedTarSource(archive) if self.part == "train" else ArchiveSource(archive)
        archive = root / KAGGLE_ARCHIVE
        return ArchiveSource(archive) if archive.is_file() else None

    @override
    def looked_for(self, root: Path) -> list[str]:
        archive = self.raw_files[0].name
        found, loose = _look(root / self.part)
        note = f" (not sorted to the end: {loose} is still in {self.part}/)" if found == "broken" else ""
        others = [f"{KAGGLE_IMAGES}/{self.part}/", KAGGLE_ARCHIVE, f"{PARQUET_SPLITS[self.part]}-*.parquet"]
        if self.part == "train":
            return [f"train/<wnid>/{note}", archive, *others]
        return [
            f"val/<wnid>/{note}",
            archive,
            f"{DEVKIT} or torchvision's {META_BIN} or Kaggle's {SOLUTION} (only they say which class "
            f"an image has: {DOWNLOAD_PAGE})",
            *others,
        ]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if member.name.endswith(PARQUET):
            for name, data in _parquet_images(member):
                yield Blob("image", name, data)
            return
        if member.name in (*SIDECARS, *_KAGGLE_LISTS[self.part]):
            yield Sidecar(member.name, member.read())
        name = member.name.removeprefix(f"{KAGGLE_IMAGES}/{self.part}/")
        if name.startswith(_KAGGLE_TOP):  # of the other part
            return
        if is_image(name) and not is_apple_double(name) and ("/" in name or self.part == "val"):
            yield Blob("image", name, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys.get("image", ())
        if not keys:
            raise SourceError(f"ImageNet: there is no image of the split {self.part!r} in the raw data. {INCOMPLETE}")
        meta = parse_meta(sidecars)
        synonyms = _kaggle_synonyms(sidecars) if meta is None else meta.synonyms
        placed = keys if self.part == "train" else _sort_into_wnids(keys, meta, _kaggle_val_wnids(sidecars))
        order = class_folder_order(placed)
        names = [placed[index] for index in order]
        wnids, target = class_labels(names)
        # An interrupted extraction or download leaves a tree that looks whole.
        missing = sorted(set(all_wnids()).difference(wnids))
        facts = [f"Classes without images: {_first(missing)}."] if missing else []
        facts += [f"Shards that are missing: {_first(self._missing_shards)}."] if self._missing_shards else []
        return Table(
            names=names,
            keys={"image": [keys[index] for index in order]},
            arrays={"target": target},
            classes=wnids,
            metadata={**synonyms_metadata(wnids, synonyms), **self.incomplete(len(names), *facts)},
        )


def synonyms_metadata(wnids: Sequence[str], synonyms: Mapping[str, Sequence[str]]) -> dict[str, JSON]:
    """Return the metadata: the synonyms of each class, if they are known for every class."""
    if not synonyms or not synonyms.keys() >= set(wnids):
        return {}
    return {"synonyms": [list(synonyms[wnid]) for wnid in wnids]}


def _sort_into_wnids(keys: Sequence[str], meta: Meta | None, by_kaggle: Mapping[str, str]) -> Sequence[str]:
    """Name validation images ``<wnid>/<file>``, by the ground truth or by Kaggle's lists."""
    flat = sorted(key for key in keys if "/" not in key)
    if not flat:
        return keys
    if len(flat) < len(keys):
        raise SourceError(
            f"ImageNet: {len(flat)} validation images lie outside of a <wnid> folder (the first is {flat[0]}) and "
            f"{len(keys) - len(flat)} inside: sorting them was interrupted. Remove the folder val/ and start from "
            "ILSVRC2012_img_val.tar."
        )
    if meta is not None:
        wnid_of = _by_ground_truth(flat, meta.val_wnids)
    elif by_kaggle:
        wnid_of = {key: by_kaggle.get(os.path.splitext(key)[0], "") for key in flat}
    else:
        raise SourceError(
            f"ImageNet: the validation images are not sorted into <wnid> folders, and nothing that says which class "
            f"each image has ({DEVKIT}, {META_BIN}, {SOLUTION}) is there. Get {DEVKIT} from "
            f"{DOWNLOAD_PAGE}."
        )
    if unknown := [key for key, wnid in wnid_of.items() if not wnid]:
        raise SourceError(
            f"ImageNet: the lists do not say the class of {counted(len(unknown), 'image')}: {_first(unknown)}."
        )
    return [f"{wnid_of[key]}/{key}" for key in keys]


def _by_ground_truth(flat: Sequence[str], val_wnids: Sequence[str]) -> dict[str, str]:
    """Return the WNID of each image: by its place if all images are there, as in torchvision; else by its number."""
    if len(flat) == len(val_wnids):
        return dict(zip(flat, val_wnids, strict=True))
    numbers = [int(match[1]) if (match := _NUMBER.fullmatch(key)) else 0 for key in flat]
    if min(numbers) > 0 and max(numbers) <= len(val_wnids):
        return {key: val_wnids[number - 1] for key, number in zip(flat, numbers, strict=True)}
    raise SourceError(
        f"ImageNet: there are {len(flat):,} validation images, but the ground truth of the development kit has "
        f"{len(val_wnids):,} lines. The images do not belong to it, or were renamed."
    )


def _look(tree: Path) -> tuple[str, str]:
    """Return the state of a split's folder: "sorted", "flat", "broken" (sorting was interrupted), or "none".

    Returns:
        That, and for "broken" a file that should not be there any more: torchvision removes an inner archive of "train"
        when it is extracted, and moves the images of "val" into their folders one by one.
    """
    if not tree.is_dir():
        return "none", ""
    with os.scandir(tree) as entries:
        names = sorted((not entry.is_dir(), entry.name) for entry in entries)
    has_folders = bool(names) and not names[0][0]
    files = [name for is_file, name in names if is_file]
    archive = next((name for name in files if name.endswith(".tar")), "")
    image = next(filter(is_image, files), "")
    loose = archive or (image if tree.name == "val" else "")
    if has_folders:
        return ("broken", loose) if loose else ("sorted", "")
    return ("flat", "") if image else ("broken", archive) if archive else ("none", "")


NUM_LABELS = 1000
LABELS = "real.json"


class NumberedFolders(ClassFolderRecipe):
    """Class folders are named by their labels, 0 to 999. The order is ImageFolder's: 0, 1, 10, 100, ..."""

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if _label(member.name.removeprefix(self.top)) is not None:
            yield from super().extract(member)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        labels = np.array([_label(name) for name in table.names], np.int64)
        return dataclasses.replace(table, arrays={"target": labels}, classes=list(map(str, range(NUM_LABELS))))


def _label(name: str) -> int | None:
    """Return the label of ``<label>/<file>``; None if the folder is not a label."""
    folder = name.partition("/")[0]
    is_label = folder.isascii() and folder.isdecimal() and len(folder) <= 3 and str(int(folder)) == folder
    return int(folder) if is_label else None


class CorruptedFolders(ClassFolderRecipe):
    """Folders ``<corruption>/<severity>/<class>``; severities are 1 to 5."""

    @override
    def class_path(self, name: str) -> str:
        severity, _, inner = super().class_path(name).partition("/")
        return inner if severity in ("1", "2", "3", "4", "5") else ""

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        table = super().build_table(stored, sidecars)
        severity = np.array([int(name.split("/")[1]) for name in table.names], np.int64)
        # by severity, then in ImageFolder's order: the order of the names
        splits = {split: np.sort(np.asarray(places)) for split, places in table.splits.items()}
        return dataclasses.replace(table, arrays={**table.arrays, "severity": severity}, splits=splits)


class ReassessedLabels(DeclaredRecipe):
    """Validation images in the order of their numbers; a list has the labels of each, also a list.

    The tree has the images in val/, in folders or not: torchvision sorts them into one for each class.
    """

    fields = {"image": BlobSpec("image"), "target": BlobSpec("json")}
    tree_marks = ("val/",)

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        is_there = (base / "val").is_dir() and (base / LABELS).is_file()
        return [*files_under(base, "val", (".jpeg",)), LABELS] if is_there else None

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        file = member.name.rpartition("/")[2]
        if member.name == LABELS:
            for number, labels in enumerate(_label_lists(member.read()), 1):
                yield Blob("target", f"ILSVRC2012_val_{number:08d}.JPEG", json.dumps(labels).encode())
        elif _NUMBER.fullmatch(file):
            yield Blob("image", file, member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        names = sorted(stored.keys.get("image", ()))
        if not names or not set(names).issubset(stored.keys.get("target", ())):
            raise SourceError(f"{self.set_name}: there are no images, or not all of them have labels. {INCOMPLETE}")
        return Table(names, keys={"target": names}, splits={"val": names})


def _label_lists(data: bytes) -> list[list[int]]:
    """Read the labels of each image.

    Raises:
        SourceError: It is not a list of lists of ImageNet's labels.
    """
    try:
        lists: list[list[int]] = json.loads(data)
        is_right = all(type(label) is int and 0 <= label < NUM_LABELS for labels in lists for label in labels)
    except (ValueError, TypeError, RecursionError):
        is_right = False
    if not is_right:
        raise SourceError(f"{LABELS} is not a list of lists of labels from 0 to {NUM_LABELS - 1}. Get it again.")
    return lists
