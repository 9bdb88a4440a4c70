"""`split`: divide the records of a set into train and val, in a new set that shares its shards."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.progress import Progress
from recordzoo.base.text import JSON, did_you_mean
from recordzoo.errors import ArgumentError
from recordzoo.net.url import Url, is_url
from recordzoo.records.manifest import ENDING
from recordzoo.records.reader import RecordReader
from recordzoo.sets.merge import link, said_of, splits_of

TRAIN, VAL = "train", "val"


def split(
    records: str | os.PathLike[str],
    val: float | str,
    *,
    by: str | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Divide the records of a set into the splits train and val, in a new set that shares its shards.

    Each class has the same share of val, up to rounding. The same set, share and seed give the same division. If the
    set has a split train, that split is divided and the others stay; otherwise all records without a split are divided.

    Args:
        records: The record set's directory; it stays as it is.
        val: The share of val: 0.1, or "10%".
        by: Records with the same value of this field stay together, in train or in val: a patient, a scene.
        seed: Another number gives another division.
        output: The new set's directory. Default: ``photos-split.records`` beside ``photos.records``.
        progress: Receives the progress.

    Returns:
        The new set's directory.

    Raises:
        ArgumentError: There is no such field or share; the set has a split val; or one of the splits would be empty.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at `records`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.split("photos.records", "10%")  # doctest: +SKIP
        PosixPath('/home/me/photos-split.records')
    """
    reader, share = RecordReader(records), _share(val)
    made_of: dict[str, JSON] = {
        "sets": [said_of(reader)],
        "classes": "equal",
        "shards": "linked",
        "split": {"val": share, "by": by, "seed": seed},
    }
    splits = splits_of(reader) | _divided(reader, share, by, seed)
    place = split_place(records) if output is None else output
    return link([reader], place, made_of, splits, reader.manifest.classes, [None], progress)


def split_place(records: str | os.PathLike[str]) -> Path:
    """Return the default path of the divided set: beside the original; of one at a URL in the current directory."""
    path = Path(Url.parse(records).name if is_url(records) else records).expanduser().absolute()
    return path.with_name(f"{path.name.removesuffix(ENDING)}-split{ENDING}")


def _share(val: float | str) -> float:
    """Read a share: 0.1, "0.1" or "10%"."""
    text = str(val).strip()
    try:
        share = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ArgumentError(f"Argument val (--val) is {val!r}; it must be a share, such as 10% or 0.1.")
    return share


def _divided(reader: RecordReader, share: float, by: str | None, seed: int) -> dict[str, NDArray[np.int64]]:
    """Return the splits train and val."""
    pool = _pool(reader)
    column = reader.manifest.label_field
    labels = np.zeros(len(pool), np.int64) if column is None else reader.array(column)[pool].astype(np.int64)
    draws = np.random.PCG64(seed % (1 << 64)).random_raw(len(pool))  # the same with every version of NumPy
    if by is None:
        is_val = _stratified(labels, draws, share)
    else:
        is_val = _grouped(labels, _groups(reader, by, pool), draws, share)
    if not is_val.any() or is_val.all():
        raise ArgumentError(
            f"{len(pool):,} records of {reader.path} cannot be divided with {share:.2%} for val: one of the two "
            "splits would be empty."
        )
    return {TRAIN: pool[~is_val], VAL: pool[is_val]}


def _pool(reader: RecordReader) -> NDArray[np.int64]:
    """Return the positions that are divided: the split train; without one, those that are in no split."""
    splits = reader.manifest.splits
    if VAL in splits:
        raise ArgumentError(f"{reader.path} has a split {VAL} already: {VAL} {splits[VAL]:,}.")
    if TRAIN in splits:
        return np.sort(reader.split(TRAIN))
    is_free = np.ones(len(reader), bool)
    for name in splits:
        is_free[reader.split(name)] = False
    return np.flatnonzero(is_free)


def _stratified(labels: NDArray[np.int64], draws: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    """Choose the same share of each class; the remainder goes to the classes that lack most."""
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    exact = counts * share
    quota = np.floor(exact).astype(np.int64)
    missing = round(len(labels) * share) - int(quota.sum())
    quota[np.argsort(quota - exact, kind="stable")[:missing]] += 1
    order = np.lexsort((draws, classes))
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(labels), bool)
    chosen[order] = rank < quota[classes[order]]
    return chosen


def _grouped(
    labels: NDArray[np.int64], groups: NDArray[np.int64], draws: NDArray[np.uint64], share: float
) -> NDArray[np.bool_]:
    """Choose whole groups, large ones first, while each moves the classes' counts closer to their share."""
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    wanted = counts * share
    sizes = np.bincount(groups)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    is_chosen = np.zeros(len(sizes), bool)
    for group in np.lexsort((draws[: len(sizes)], -sizes)).tolist():
        found, times = np.unique(classes[members[group]], return_counts=True)
        if (times * times).sum() < 2 * (times * wanted[found]).sum():
            wanted[found] -= times
            is_chosen[group] = True
    return is_chosen[groups]


def _groups(reader: RecordReader, field: str, pool: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the values of a field, from 0, in the order of the values."""
    if field in reader.columns:
        values = reader.array(field)[pool]
        return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    if field not in reader.manifest.blobs:
        fields = [*reader.manifest.fields]
        raise ArgumentError(
            f"{reader.path} has no field {field!r}; it has {', '.join(fields)}.{did_you_mean(field, fields)}"
        )
    there = [reader.has(field, place) for place in pool.tolist()]
    data = [reader.read(field, place) if has else b"" for place, has in zip(pool.tolist(), there, strict=True)]
    numbers = {key: number for number, key in enumerate(sorted(set(zip(there, data, strict=True))))}
    return np.array([numbers[key] for key in zip(there, data, strict=True)], np.int64)
