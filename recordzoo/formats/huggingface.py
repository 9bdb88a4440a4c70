"""Hugging Face datasets: Parquet files, what `datasets` saves or caches as Arrow files, repositories of the Hub.

Which column is what is said by the features that `datasets` writes into a file's metadata (key "huggingface";
src/datasets/features/features.py and arrow_writer.py in huggingface/datasets), or into `dataset_info.json` beside it.
"""

import glob
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import basename, dirname, splitext
from typing import Any

from typing_extensions import override

from recordzoo.base.settings import need
from recordzoo.base.text import shown
from recordzoo.errors import ArgumentError, RemoteError, SourceError
from recordzoo.formats.arrow import (
    Column,
    batches,
    holds_files,
    is_parquet,
    look,
    open_first,
    shape_of,
    stored_as,
    values_of,
)
from recordzoo.formats.base import (
    IMAGES,
    LABELS,
    NUMBERED,
    Foreign,
    Piece,
    Sample,
    fault,
    image_ending,
    refuse_missing,
    split_name,
)
from recordzoo.net.failures import check_online
from recordzoo.net.hub import HubDataset, asking
from recordzoo.net.url import Url
from recordzoo.recipes.declared import SPLIT_NAMES
from recordzoo.records.manifest import FieldKind, FieldSpec

LOOKS_FOR = "files *.parquet or *.arrow, or a repository hf://datasets/user/name"

_ENDINGS = (".parquet", ".arrow")
_MAX_INFO_BYTES = 16 << 20
_DEPTH = 3
_GENERIC = ("", "data", "dataset", "part", "shard", "file", "chunk")

_SPLITS = {*SPLIT_NAMES, "extra", "unsupervised"}


def find(location: str, fields: Mapping[str, str]) -> Foreign | None:
    """See `recordzoo.formats`."""
    if location.startswith("hf://"):
        hub = Hub(location)
        return HuggingFace(location, fields, table_files(location, hub.sizes()), hub)
    path = Path(location)
    if path.suffix in _ENDINGS and path.is_file():
        return HuggingFace(location, fields, [Piece(path.name, path.stat().st_size, ())], path.parent)
    files = table_files(location, tables_below(path)) if path.is_dir() else []
    return HuggingFace(location, fields, files, path) if files else None


class Hub:
    """A repository, or a folder or file of it, at the commit that its revision has now. Pickles.

    The files are downloaded before they are read: huggingface_hub resumes a download, checks its size, and shares the
    files with `datasets`. The token is its own: of ``HF_TOKEN`` or of ``hf auth login``.

    Args:
        location: ``hf://datasets/user/name``, with ``@revision`` behind it, and a path.
    """

    def __init__(self, location: str) -> None:
        found = HubDataset.find(location)
        if found is None:
            raise ArgumentError(
                f"{shown(location)} is no dataset of the Hub: hf://datasets/USER/NAME, and a path behind it."
            )
        need("huggingface_hub", "The Hugging Face Hub is read", "hf")
        self.url = Url.parse(location)
        self.repository, self.folder = found.repository, found.folder
        self.revision = "refs/convert/parquet" if found.revision == "~parquet" else found.revision or "main"

    def sizes(self) -> dict[str, int]:
        """Request the commit, and the size of each file below the address, by name."""
        check_online(self.url)
        import huggingface_hub

        with asking(self.url, "listed"):
            info = huggingface_hub.HfApi().dataset_info(self.repository, revision=self.revision, files_metadata=True)
        self.revision = info.sha or self.revision
        found = {each.rfilename: int(each.size or 0) for each in info.siblings or ()}
        if self.folder in found:  # one file
            folder, _, name = self.folder.rpartition("/")
            size = found[self.folder]
            self.folder = folder
            return {name: size}
        start = f"{self.folder}/" if self.folder else ""
        below = {name.removeprefix(start): size for name, size in found.items() if name.startswith(start)}
        if not any(name.endswith((".parquet", ".arrow")) for name in below):
            raise RemoteError(
                f"{self.url} has no files *.parquet or *.arrow. The Hub converts many datasets to Parquet: try "
                f"hf://datasets/{self.repository}@refs/convert/parquet",
                url=str(self.url),
                status=None,
            )
        return below

    def bring(self, names: Sequence[str]) -> Path:
        """Download files that are not in the cache, and return the cache's folder with them."""
        import huggingface_hub

        start = f"{self.folder}/" if self.folder else ""
        folders = {name.rpartition("/")[0] for name in names if name.endswith(".arrow")}
        infos = [f"{folder}/dataset_info.json".lstrip("/") for folder in sorted(folders)]
        patterns = [glob.escape(f"{start}{name}") for name in (*names, *infos)]
        with asking(self.url, "read"):
            place = huggingface_hub.snapshot_download(
                self.repository, repo_type="dataset", revision=self.revision, allow_patterns=patterns
            )
        return Path(place) / self.folder


def tables_below(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each file in a folder, three levels deep, by name; hidden ones are left out."""
    found = {}
    for place, folders, files in os.walk(folder):
        inner = Path(place).relative_to(folder)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if len(inner.parts) < _DEPTH else []
        for name in files:
            path = Path(place) / name
            if (path.suffix in _ENDINGS or name == "state.json") and path.is_file():
                found[(inner / name).as_posix()] = path.stat().st_size
    return found


def table_files(location: str, sizes: Mapping[str, int]) -> list[Piece]:
    """Choose the files of a dataset, each a piece: Parquet, or if there are none Arrow; in the order of their names.

    Args:
        location: For messages.
        sizes: The size of each file by name.
    """
    saved = {dirname(name) for name in sizes if basename(name) == "state.json"}
    for ending in (".parquet", ".arrow"):
        names = [name for name in sorted(sizes) if name.endswith(ending) and _is_data(name, saved)]
        if names:
            break
    splits = {name: dirname(name) if dirname(name) in saved else _split(name) for name in names}
    _check_one_dataset(location, splits)
    refuse_missing(names, location)
    has_splits = len(set(splits.values())) > 1
    found = []
    for name, split in splits.items():
        # An only split is marked as one by a usual word, or by numbered files.
        is_split = has_splits or split in _SPLITS or NUMBERED.fullmatch(splitext(basename(name))[0])
        found.append(Piece(name, sizes[name], (), split=split_name(split) if is_split else ""))
    return found


def _is_data(name: str, saved: set[str]) -> bool:
    """Whether a file holds data: not hidden, and not a cache file of `map` and `filter` in a saved dataset."""
    if any(part.startswith(".") for part in name.split("/")):
        return False
    base = basename(name)
    return base.startswith(("data-", "dataset")) if dirname(name) in saved else not base.startswith(("cache-", "tmp"))


def _split(name: str) -> str:
    """Return the split in a file's name: the word before the number, or else the folder."""
    stem = splitext(basename(name))[0]
    match = NUMBERED.fullmatch(stem)
    prefix = match["prefix"] if match else re.sub(r"[-_.]?\d+$", "", stem)
    word = prefix.rpartition("-")[2]
    if word in _GENERIC:
        folder = basename(dirname(name)).removeprefix("partial-")
        return "" if folder in _GENERIC else folder
    return word


def _check_one_dataset(location: str, splits: Mapping[str, str]) -> None:
    """Raise if a split's files are in several folders: these are configurations, each a dataset."""
    for split in set(splits.values()):
        folders = sorted({dirname(name) for name, each in splits.items() if each == split})
        if len(folders) > 1:
            raise ArgumentError(
                f"{location} has several datasets, in the folders {', '.join(folders[:10])}"
                f"{' and more' if len(folders) > 10 else ''}. Name one: {location.rstrip('/')}/{folders[-1]}"
            )


class HuggingFace(Foreign):
    """The rows of some files; a piece is some row groups, or some batches of an Arrow file.

    Args:
        location: A file, a folder, or an address of the Hub.
        fields: As `Foreign` has them.
        files: The files, in their order: by their paths below `place`, each as one piece.
        place: Where they are.
    """

    format = "huggingface"

    def __init__(self, location: str, fields: Mapping[str, str], files: Sequence[Piece], place: Path | Hub) -> None:
        super().__init__(location, fields)
        need("pyarrow", "A Hugging Face dataset is read")
        if not files:
            raise fault(location, " has no files *.parquet or *.arrow.")
        self._files, self._place = files, place
        self._columns: Sequence[Column] = ()
        self._rows: dict[str, tuple[str, int]] = {}  # of each piece: its file's name, the number of its first row

    @override
    def identity(self) -> str:
        digest = hashlib.sha256(self.format.encode())
        for file in self._files:
            digest.update(f"{file.name}\0{file.size_bytes}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    @override
    def open(self) -> None:
        folder = self._place.bring([file.name for file in self._files]) if isinstance(self._place, Hub) else self._place
        pieces: list[Piece] = []
        schema: Any = None  # pyarrow's
        paths = [folder / file.name for file in self._files]
        open_first([path for path in paths if is_parquet(path)])
        for file, path in zip(self._files, paths, strict=True):
            own, parts = look(path)
            schema = own if schema is None else schema
            if own.names != schema.names:
                raise fault(
                    path,
                    f" has the columns {', '.join(own.names)}; {paths[0]} has {', '.join(schema.names)}. If these are "
                    "two datasets, name one of them.",
                )
            stem, _ = splitext(file.name)
            for number, part in enumerate(parts):
                name = f"{stem}:{number}"
                pieces.append(Piece(name, part.size_bytes, (path,), part.start, part.stop, file.split))
                self._rows[name] = stem, part.first_row
        self.pieces = pieces
        self.check_fields(schema.names)
        features = _features(schema, paths[0])
        try:
            self._columns = self._name_columns(schema, features)
        except UnicodeDecodeError as err:  # of a column within a column
            raise SourceError(f"{paths[0]} is damaged: the name of a column is no text.", path=str(paths[0])) from err
        self.kinds = {column.name: column.kind for column in self._columns if column.kind}
        self.kinds |= {column.paths: "json" for column in self._columns if column.paths}
        self._keep_names(features)

    # Any: pyarrow's schema, features as JSON has them.
    def _name_columns(self, schema: Any, features: Mapping[str, Any]) -> list[Column]:
        """Return the field of each column, the image first."""
        files = [column.name for column in schema if holds_files(column.type, features.get(column.name, {}))]
        images = [name for name in files if features.get(name, {}).get("_type", "Image") == "Image"]
        images += [c.name for c in schema if c.name in IMAGES and stored_as(c.type) == "bytes"]
        classes = [name for name in schema.names if features.get(name, {}).get("_type") == "ClassLabel"]
        labels = [*classes, *(name for name in LABELS if name in schema.names)]
        image, label = self.usual_key("image", images, images), self.usual_key("target", labels, labels)
        usual = {key: field for key, field in ((image, "image"), (label, "target")) if key is not None}
        named, found = self.name_fields(schema.names, usual), []
        for column in schema:
            key, name = column.name, named[column.name]
            is_file, is_image = key in files, key in images
            kind = "image" if is_image or name == "image" else "bytes" if is_file else stored_as(column.type)
            paths = f"{name}_path" if is_file else ""
            while paths in named.values():
                paths += "_2"
            if shape := shape_of(features.get(key, {})):
                kind = "raw" if None in shape else ""
            found.append(Column(key, name, is_file, paths, kind, shape, key in classes))
        return sorted(found, key=lambda column: column.name != "image")

    # Any: features as JSON has them.
    def _keep_names(self, features: Mapping[str, Any]) -> None:
        """Store the names of labels: of "target" as the classes, of other fields, and within lists and structs."""
        found = {column.name: features[column.key].get("names") for column in self._columns if column.is_class}
        found = {name: each for name, each in found.items() if isinstance(each, list) and {*map(type, each)} <= {str}}
        self.classes = found.pop("target", None)
        self.specs = {name: FieldSpec(FieldKind.CLASS, tuple(names)) for name, names in found.items()}
        others = {column.key: features.get(column.key) for column in self._columns if not column.is_class}
        within = {key: feature for key, feature in others.items() if '"_type": "ClassLabel"' in json.dumps(feature)}
        self.metadata = {"features": within} if within else {}

    @override
    def read(self, piece: Piece) -> Iterator[Sample]:
        (path,) = piece.files
        stem, number = self._rows[piece.name]
        for batch in batches(path, piece.start, piece.stop):
            found: dict[str, Sequence[Any]] = {}
            for column in self._columns:
                where = f"{path}, rows {number:,} to {number + batch.num_rows - 1:,}, column {column.key}"
                try:
                    found |= values_of(column, batch.column(column.key), path.parent, is_anywhere=self.allows_paths)
                except (RuntimeError, ValueError, TypeError, KeyError) as err:  # also SourceError, RecursionError
                    raise SourceError(f"{where}: {err}.", path=str(path)) from err
            for row in zip(*found.values(), strict=True):
                sample = dict(zip(found, row, strict=True))
                yield Sample.of(sample, f"{stem}/{number:06d}{image_ending(sample)}")
                number += 1


# Any: pyarrow's schema; features as JSON has them.
def _features(schema: Any, path: Path) -> Mapping[str, Any]:
    """Return the features of columns that have one."""
    data = (schema.metadata or {}).get(b"huggingface")
    where = f"the metadata of {path}"
    beside = path.parent / "dataset_info.json"
    if data is None and beside.is_file():
        where = str(beside)
        with beside.open("rb") as file:
            data = file.read(_MAX_INFO_BYTES)
    if data is None:
        return {}
    try:
        info = json.loads(data)
        features = info.get("info", info).get("features") or {}
        if all(isinstance(feature, dict | list) for feature in features.values()):
            # A list of one feature is how `datasets` wrote a List until version 4.
            return {
                name: {"_type": "List", "feature": feature[0]} if isinstance(feature, list) else feature
                for name, feature in features.items()
                if feature
            }
    except (ValueError, AttributeError, RecursionError):
        pass
    raise SourceError(f"{where} does not describe its columns as datasets does.", path=str(path))
