"""`to_hf`: convert a record set to a `datasets.Dataset`, or a `DatasetDict` of its splits; or write it as Parquet."""

import itertools
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import NDArray

from recordzoo import __version__
from recordzoo.base.settings import need
from recordzoo.errors import ArgumentError, RecordZooError
from recordzoo.formats.arrow import ARRAYS
from recordzoo.formats.samples import Content, Export, Field, chosen_splits, printable
from recordzoo.net.url import Url, is_url
from recordzoo.records.manifest import FieldKind
from recordzoo.records.reader import RecordReader

if TYPE_CHECKING:
    import datasets

_AT_ONCE = 1000
_MAX_COLUMNS = 256


def to_hf(
    dataset: Any, split: str | None = None, *, cache_dir: str | os.PathLike[str] | None = None
) -> Union["datasets.Dataset", "datasets.DatasetDict"]:
    """Convert a record set to a Hugging Face dataset: unchanged stored images, labels, class names, other fields.

    The columns are "image" (`Image`), "label" (`ClassLabel` if the classes have names), "name" and the other fields.
    Pixels that are stored raw become PNG. Numbers keep their dtype. JSON becomes text, numbers, structs or lists if all
    records have the same structure, otherwise `Json`.

    `datasets` writes the rows into Arrow files in its cache, 100 at a time, and maps them: they take as much disk space
    as the record set, and little memory. The same record set is not written twice.

    Args:
        dataset: A record set's path or URL, a `RecordReader`, a dataset of this package, or a `Subset` of one. A
            dataset gives its samples, order and labels, without its transforms.
        split: A split of the record set. Default: all splits, as a `DatasetDict`, with a split "rest" for records
            without a split; without splits, or for a dataset, a `Dataset`.
        cache_dir: Cache directory of `datasets`. Default: its own.

    Returns:
        A `datasets.Dataset`; a `datasets.DatasetDict` if there are splits and `split` is not given.

    Raises:
        ArgumentError: There is no such split, or the dataset does not belong to this package or was changed.
        OtherSourceError: There are no images.
        PrepareError: datasets is not installed.
        CorruptRecordError: A stored value is damaged.

    Examples:
        >>> rows = recordzoo.to_hf("my.records", split="train")
        >>> rows[0]["image"], rows.features["label"].names
    """
    need("datasets", "A Hugging Face dataset is written")
    import datasets

    if isinstance(dataset, str | os.PathLike | Url):
        dataset = RecordReader(dataset if is_url(dataset) else os.path.expanduser(os.fspath(dataset)))
    if not isinstance(dataset, RecordReader):
        if split is not None:
            raise ArgumentError(
                "Argument split is for a record set; a dataset has its own. Pass the record set's path."
            )
        return _written(_Rows.of_dataset(dataset), "", cache_dir)
    content = Content(dataset)
    splits = chosen_splits(dataset, split, may_share=True)
    found = {_split_name(name): _written(_Rows.of_set(content, each), name, cache_dir) for name, each in splits.items()}
    is_one = split is not None or not dataset.manifest.splits
    return next(iter(found.values())) if is_one else datasets.DatasetDict(found)


def write_parquet(folder: Path, export: Export) -> None:
    """Write ``data/train-00000-of-00005.parquet``, as at the Hub."""
    need("datasets", "Parquet is written")
    (folder / "data").mkdir()
    for name, positions in export.splits.items():
        rows, start = _written(_Rows.of_set(export.content, positions), name, folder / "cache"), 0
        shards = export.shards(positions)
        for number, some in enumerate(shards):
            path = folder / "data" / f"{_split_name(name)}-{number:05d}-of-{len(shards):05d}.parquet"
            rows.select(range(start, start + len(some))).to_parquet(path)
            export.done(some)
            start += len(some)
    shutil.rmtree(folder / "cache")


@dataclass(frozen=True)
class _Rows:
    """Some records in an order, each a row. `datasets` identifies the rows by this object's pickle.

    Attributes:
        labels: Their labels, int64 [n]; None if they have none.
        classes: The class names.
        texts: The fields that are written as JSON text, because the types of their values differ.
        version: The version of the rows.
    """

    content: Content
    positions: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    classes: Sequence[str]
    texts: frozenset[str] = frozenset()
    version: str = __version__

    @classmethod
    def of_set(cls, content: Content, positions: NDArray[np.int64]) -> "_Rows":
        """Return records with their own labels."""
        field = content.label_field
        labels = None if field is None else content.reader.array(field)[positions].astype(np.int64)
        return cls(content, positions, labels, content.classes)

    @classmethod
    def of_dataset(cls, dataset: Any) -> "_Rows":
        """Return the records of a dataset of this package, or of a `Subset` of one."""
        if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # as torch.utils.data.Subset, without torch
            rows, indices = cls.of_dataset(dataset.dataset), np.asarray(dataset.indices, np.int64)
            labels = None if rows.labels is None else rows.labels[indices]
            return replace(rows, positions=rows.positions[indices], labels=labels)
        name, selection = type(dataset).__name__, getattr(dataset, "_selection", None)
        if selection is None:
            raise ArgumentError(
                f"{name} is no record set and no dataset of recordzoo. Store it first: recordzoo.convert."
            )
        if hasattr(type(dataset), dataset._ITEMS) and not dataset._is_as_opened(dataset._ITEMS):
            raise ArgumentError(f"The {dataset._ITEMS} of this {name} were changed; pass a Subset of it.")
        rows = cls.of_set(Content(selection.reader), np.asarray(selection.all_positions(), np.int64))
        target = selection.reader.manifest.arrays.get(selection.column)
        if selection.has_labels and target is not None and len(target.shape) == 1 and target.dtype[1] in "iu":
            rows = replace(rows, labels=np.asarray(selection.targets(), np.int64))
        return replace(rows, classes=tuple(getattr(dataset, "classes", None) or rows.classes))


def _generate(rows: _Rows) -> Iterator[dict[str, Any]]:
    for number, position in enumerate(rows.positions.tolist()):
        sample = rows.content.sample(position)
        row: dict[str, Any] = {
            "image": {"bytes": sample.image, "path": sample.name.rpartition("/")[2]},
            "name": sample.name,
        }
        if rows.labels is not None:
            row["label"] = int(rows.labels[number])
        for field in rows.content.fields:
            value = sample.fields[field.name]
            if value is not None and field.kind == "image":
                value = {"bytes": value, "path": None}
            elif value is not None and field.name in rows.texts:
                value = json.dumps(value)
            elif field.kind == "json" and isinstance(value, str):
                value = printable(value)
            row[_column(field)] = value
        yield row


def _column(field: Field) -> str:
    """Return a field's column: its own name, unless the sample's label or name use that."""
    return f"{field.name}_field" if field.name in ("label", "name") else field.name


def _split_name(name: str) -> str:
    return (name or "train").replace("-", "_")  # `datasets` calls data without splits train; it allows no "-"


def _written(rows: _Rows, split: str, cache_dir: Any) -> "datasets.Dataset":
    """Let `datasets` write rows."""
    import datasets
    from datasets.exceptions import DatasetGenerationError

    content = rows.content
    found = {field.name: _feature(content.reader, field) for field in content.fields}
    texts = frozenset(name for name, feature in found.items() if feature is None)
    mixed = datasets.Json() if hasattr(datasets, "Json") else datasets.Value("string")
    features = {
        "image": datasets.Image(),
        **({} if rows.labels is None else {"label": _label_feature(rows.labels, rows.classes)}),
        "name": datasets.Value("string"),
        **{_column(field): found[field.name] or mixed for field in content.fields},
    }
    if not len(rows.positions):
        return datasets.Dataset.from_dict({name: [] for name in features}, features=datasets.Features(features))
    try:
        return datasets.Dataset.from_generator(
            _generate,
            features=datasets.Features(features),
            gen_kwargs={"rows": replace(rows, texts=texts)},
            split=datasets.NamedSplit(_split_name(split)),
            cache_dir=None if cache_dir is None else os.fspath(cache_dir),
        )
    except DatasetGenerationError as err:
        if isinstance(err.__cause__, RecordZooError):
            raise err.__cause__ from None
        raise


# Any, here and below: features of `datasets`.
def _label_feature(labels: NDArray[Any], classes: Sequence[Any]) -> Any:
    """Return a `ClassLabel` if all labels have a name of their own, or are -1; otherwise a number."""
    import datasets

    names = [printable(str(name)) for name in classes]
    fits = len(labels) == 0 or (labels.min() >= -1 and labels.max() < len(names))
    if names and fits and len(set(names)) == len(names):
        return datasets.ClassLabel(names=names)
    return datasets.Value("int64")


def _feature(reader: RecordReader, field: Field) -> Any:
    """Return a field's feature; None for JSON of different types."""
    import datasets

    if field.kind == "json":
        return _json_feature(reader, field.name)
    if field.kind in ("image", "bytes"):
        return datasets.Image() if field.kind == "image" else datasets.Value("binary")
    spec = reader.manifest.fields[field.name]
    if field.kind == "numbers" and spec.kind is FieldKind.CLASS and spec.names is not None:
        return _label_feature(reader.array(field.name), spec.names)
    if len(field.shape) in ARRAYS and None not in field.shape[1:]:
        return getattr(datasets, ARRAYS[len(field.shape)])(field.shape, field.dtype)
    feature: Any = datasets.Value(field.dtype)
    for length in reversed(field.shape):
        feature = datasets.List(feature, length=-1 if length is None else length)
    return feature


def _json_feature(reader: RecordReader, name: str) -> Any:
    """Return the common feature of a JSON field's values, all of which are read; None if their types differ."""
    import datasets
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.null())])
    values = (reader.value(name, position) for position in range(len(reader)) if reader.has(name, position))
    texts = (printable(value) if isinstance(value, str) else value for value in values)
    try:
        while some := list(itertools.islice(texts, _AT_ONCE)):
            found = pyarrow.schema([(name, pyarrow.array(some).type)])
            schema = pyarrow.unify_schemas([schema, found], promote_options="permissive")
            if _num_columns(schema.field(0).type) > _MAX_COLUMNS:  # dicts whose keys are data
                return None
    except (pyarrow.ArrowException, UnicodeError, OverflowError, TypeError, ValueError):
        return None
    kind = schema.field(0).type
    return datasets.Features.from_arrow_schema(schema)[name] if kind != pyarrow.null() else datasets.Value("string")


def _num_columns(kind: Any) -> int:
    return 1 + sum(_num_columns(kind.field(number).type) for number in range(kind.num_fields))
