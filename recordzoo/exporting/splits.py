"""Which samples are exported, by split."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.meant import no_split
from recordzoo.records.reader import RecordReader

REST = "rest"
"""The split of samples that are in none."""


def chosen_splits(reader: RecordReader, wanted: str | Sequence[str] | None) -> dict[str, NDArray[np.int64]]:
    """Return the positions of each split.

    Args:
        reader: The record set.
        wanted: A split, several, or None for all samples.

    Raises:
        ArgumentError: There is no such split, or splits share samples and none is named.
        OtherSourceError: There are no samples.
    """
    if wanted is None:
        found = _all_splits(reader)
    else:
        names = [wanted] if isinstance(wanted, str) else list(dict.fromkeys(wanted))
        for name in names:
            if name not in reader.manifest.splits:
                raise no_split(reader.path, name, reader.manifest.splits)
        found = {name: reader.split(name) for name in names}
    found = {name: positions for name, positions in found.items() if len(positions)}
    if not found:
        raise OtherSourceError(f"{reader.path} has no samples to export.", path=str(reader.path))
    return found


def _all_splits(reader: RecordReader) -> dict[str, NDArray[np.int64]]:
    found = {name: reader.split(name) for name in reader.manifest.splits}
    if not found:
        return {"": reader.split()}
    counts = np.zeros(len(reader), np.uint8)
    for name, positions in found.items():
        if counts[positions].any():
            raise ArgumentError(
                f"Split {name} of {reader.path} shares samples with another one. Name those that are exported: --split "
                f"(split=) with one or several of {', '.join(found)}."
            )
        counts[positions] = 1
    rest = np.flatnonzero(counts == 0)
    if len(rest):
        name = REST if REST not in found else f"{REST}-2"
        found[name] = rest
    return found
