"""`to_hf`: convert a record set to a `datasets.Dataset`, or to a `DatasetDict` of its splits."""

import dataclasses
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.packages import need
from recordzoo.errors import ArgumentError, RecordZooError
from recordzoo.formats.arrow_values import ARRAYS
from recordzoo.formats.parquet import column_name
from recordzoo.formats.samples import Content, Field, chosen_splits, printable
from recordzoo.net.url import Url, is_url
from recordzoo.records.kinds import FieldKind
from recordzoo.records.reader import RecordReader

if TYPE_CHECKING:
    import datasets

_DEFAULT_SPLIT = "train"  # the name in `datasets` for data without splits
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
    need("datasets", "datasets", "A Hugging Face dataset is written")
    import datasets

    chosen = _chosen(dataset)
    content = Content(chosen.reader)
    if not chosen.is_whole:
        if split is not None:
            raise ArgumentError(
                "Argument split is for a record set; a dataset has its own. Pass the record set's path."
            )
        return _written(content, chosen, _DEFAULT_SPLIT, cache_dir)
    if split is None and not chosen.reader.manifest.splits:
        return _written(content, chosen, _DEFAULT_SPLIT, cache_dir)
    if split is not None:
        (positions,) = chosen_splits(chosen.reader, split).values()
        return _written(content, dataclasses.replace(chosen, positions=positions), split, cache_dir)
    splits = _splits(chosen.reader)
    return datasets.DatasetDict(
        {
            _split_name(name): _written(content, dataclasses.replace(chosen, positions=each), name, cache_dir)
            for name, each in splits.items()
        }
    )


@dataclass(frozen=True)
class _Chosen:
    """Some records, in an order.

    Attributes:
        positions: Their positions, int64 [n].
        labels: Their labels, int64 [n]; None: the record set's labels.
        classes: The class names.
        is_whole: Whether a record set was given, not a dataset.
    """

    reader: RecordReader
    positions: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    classes: Sequence[str]
    is_whole: bool


def _chosen(dataset: Any) -> _Chosen:
    """Find the chosen records."""
    if isinstance(dataset, str | os.PathLike | Url):
        place = dataset if is_url(dataset) else os.path.expanduser(os.fspath(dataset))
        dataset = RecordReader(place)
    if isinstance(dataset, RecordReader):
        return _Chosen(dataset, dataset.split(), None, dataset.manifest.classes or (), True)
    if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # torch.utils.data.Subset, without importing torch
        inner = _chosen(dataset.dataset)
        indices = np.asarray(dataset.indices, np.int64)
        labels = None if inner.labels is None else inner.labels[indices]
        return _Chosen(inner.reader, inner.positions[indices], labels, inner.classes, False)
    selection = getattr(dataset, "_selection", None)
    if selection is None:
        raise ArgumentError(
            f"{type(dataset).__name__} is no record set and no dataset of recordzoo. Store it first: recordzoo.convert."
        )
    if hasattr(type(dataset), dataset._ITEMS) and not dataset._is_as_opened(dataset._ITEMS):
        raise ArgumentError(f"The {dataset._ITEMS} of this {type(dataset).__name__} were changed; pass a Subset of it.")
    labels = np.asarray(selection.targets(), np.int64) if _has_labels(selection) else None
    classes = getattr(dataset, "classes", None) or selection.reader.manifest.classes or ()
    return _Chosen(selection.reader, np.asarray(selection.all_positions(), np.int64), labels, tuple(classes), False)


def _has_labels(selection: Any) -> bool:
    target = selection.reader.manifest.arrays.get(selection.column)
    return bool(selection.has_labels) and target is not None and len(target.shape) == 1 and target.dtype[1] in "iu"


def _splits(reader: RecordReader) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each split; splits may share samples."""
    try:
        return chosen_splits(reader, None)
    except ArgumentError:
        return chosen_splits(reader, tuple(reader.manifest.splits))


def _split_name(name: str) -> str:
    return name.replace("-", "_")  # `datasets` allows letters, digits and "_"


@dataclass(frozen=True)
class _Rows:
    """Generates the rows. `datasets` identifies the rows by this object's pickle.

    Attributes:
        texts: The fields that are written as JSON text, because the types of their values differ.
    """

    content: Content
    texts: frozenset[str]
    positions: NDArray[np.int64]
    labels: NDArray[np.int64] | None
    version: str


def _rows(source: _Rows) -> Iterator[dict[str, Any]]:
    for number, position in enumerate(source.positions.tolist()):
        sample = source.content.sample(position)
        row: dict[str, Any] = {
            "image": {"bytes": sample.image, "path": sample.name.rpartition("/")[2]},
            "name": sample.name,
        }
        label = sample.label if source.labels is None else int(source.labels[number])
        if label is not None:
            row["label"] = label
        for field in source.content.fields:
            value = sample.fields[field.name]
            if value is not None and field.kind == "image":
                value = {"bytes": value, "path": None}
            elif value is not None and field.name in source.texts:
                value = json.dumps(value)
            elif field.kind == "json" and isinstance(value, str):
                value = printable(value)
            row[column_name(field)] = value
        yield row


def _written(content: Content, chosen: _Chosen, split: str, cache_dir: Any) -> "datasets.Dataset":
    """Let `datasets` write rows."""
    import datasets
    from datasets.exceptions import DatasetGenerationError

    from recordzoo import __version__

    labels = chosen.labels
    if labels is None and content.label_field is not None:
        labels = content.reader.array(content.label_field)[chosen.positions].astype(np.int64)
    found = {field.name: _feature(content.reader, field) for field in content.fields}
    features = {
        "image": datasets.Image(),
        **({} if labels is None else {"label": _label_feature(labels, chosen.classes)}),
        "name": datasets.Value("string"),
        **{column_name(field): found[field.name] or _mixed() for field in content.fields},
    }
    features = datasets.Features(features)
    if not len(chosen.positions):
        return datasets.Dataset.from_dict({name: [] for name in features}, features=features)
    texts = frozenset(name for name, feature in found.items() if feature is None)
    try:
        return datasets.Dataset.from_generator(
            _rows,
            features=features,
            gen_kwargs={"source": _Rows(content, texts, chosen.positions, labels, __version__)},
            split=datasets.NamedSplit(_split_name(split)),
            cache_dir=None if cache_dir is None else os.fspath(cache_dir),
        )
    except DatasetGenerationError as err:
        if isinstance(err.__cause__, RecordZooError):
            raise err.__cause__ from None
        raise


# Any, here and below: features of `datasets`.
def _mixed() -> Any:
    """Return the feature of JSON values whose types differ."""
    import datasets

    return datasets.Json() if hasattr(datasets, "Json") else datasets.Value("string")


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
