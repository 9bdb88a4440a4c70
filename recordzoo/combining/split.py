"""`split`: divide the records of a set into the splits train and val."""

import os
from pathlib import Path
from typing import Literal

from recordzoo.base.progress import Progress
from recordzoo.combining.making import make_linked
from recordzoo.errors import ArgumentError
from recordzoo.preparing import Options
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.recipes.from_sets.splitting import Division
from recordzoo.records.manifest import ENDING
from recordzoo.records.reader import RecordReader


def split(
    records: str | os.PathLike[str],
    val: float | str,
    *,
    by: str | None = None,
    seed: int = 0,
    output: str | os.PathLike[str] | None = None,
    refresh: bool | Literal["if-changed"] = False,
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
        refresh: As in `OwnOptions`.
        progress: Receives the progress.

    Returns:
        The new set's directory.

    Raises:
        ArgumentError: There is no such field or share; the set has a split val; one of the splits would be empty; or
            the set is at a URL.
        OtherSourceError: `output` holds something else.
        ManifestError: There is no record set at `records`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.split("photos.records", "10%")  # doctest: +SKIP
        PosixPath('/home/me/photos-split.records')
    """
    reader = RecordReader(records)
    division = Division(_share(val), by, seed)
    place = split_place(records) if output is None else output
    return make_linked([SetPart(reader)], place, Options(refresh=refresh, progress=progress), change=division)


def split_place(records: str | os.PathLike[str]) -> Path:
    """Return the default path of the divided set: beside the original."""
    path = Path(records).expanduser().absolute()
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
