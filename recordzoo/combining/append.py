"""`append`: add records to a set."""

import os
from pathlib import Path
from typing import Literal

from recordzoo import zoo
from recordzoo.base.progress import Progress
from recordzoo.base.text import name_first
from recordzoo.combining.making import make_linked
from recordzoo.errors import ArgumentError
from recordzoo.net.url import is_url
from recordzoo.preparing import Options
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.manifest import SPLIT_PATTERN
from recordzoo.records.reader import RecordReader, is_record_set


def append(
    records: str | os.PathLike[str],
    more: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    split: str | None = None,
    refresh: bool | Literal["if-changed"] = False,
    progress: Progress | None = None,
) -> Path:
    """Add records to a record set. Its records stay first, with their names and class numbers.

    Shards are shared by hard links: only arrays are written, and new records that are not a record set yet. Without
    `output` the set is replaced atomically: a reader sees the old set or the new one. Appending the same `more` again
    changes nothing.

    Args:
        records: The record set's directory.
        more: The new records: a record set's directory, or anything that `recordzoo.prepare` takes; it is prepared
            first, and its own record set stays. The fields and their encodings must be the same. New classes follow the
            existing ones. A name that both have is prefixed with the name of `more`.
        output: The new set's directory; `records` stays as it is. Default: `records` is replaced.
        split: The split of the new records. Default: they keep their splits; splits of the same name are concatenated.
        refresh: With `output`: as in `OwnOptions`.
        progress: Receives the progress.

    Returns:
        The directory of the larger set.

    Raises:
        ArgumentError: The sets do not fit together: the message names the field, or the classes; or one is at a URL.
        OtherSourceError: `output` holds something else, or another process changed the set during the call.
        ManifestError: There is no record set at `records`.
        RecordZooError: As `prepare`, of `more`.

    Examples:
        >>> import recordzoo
        >>> recordzoo.append("photos.records", "new-photos")  # doctest: +SKIP
        PosixPath('/home/me/photos.records')
    """
    if split is not None and not SPLIT_PATTERN.fullmatch(split):
        raise ArgumentError(f"{split!r} is no name of a split: small letters, digits and hyphens.")
    options = Options(refresh=refresh, progress=progress)
    first = SetPart(RecordReader(records))
    second = SetPart(RecordReader(_prepared(more, progress)), split=split or "")
    if output is None and _has(first.reader, second.reader.digest):
        return first.reader.folder
    unite = first.reader.manifest.classes != second.reader.manifest.classes
    return make_linked([first, second], output, options, unite=unite, keeps_names=True)


def _prepared(more: str | os.PathLike[str], progress: Progress | None) -> str | os.PathLike[str]:
    """Return the record set of the new records."""
    if is_url(more) or is_record_set(Path(more).expanduser()):
        return more
    made = zoo.prepare(more, download=False, progress=progress)
    if len(made) > 1:
        raise ArgumentError(
            f"{os.fspath(more)} gives several record sets: {name_first(list(map(str, made)), 3)}. Name one."
        )
    return made[0]


def _has(reader: RecordReader, digest: str) -> bool:
    """Whether a set with this digest was the last one appended."""
    made_of = reader.manifest.metadata.get("made_of")
    sets = made_of.get("sets") if isinstance(made_of, dict) and made_of.get("names") == "kept" else None
    return isinstance(sets, list) and bool(sets) and isinstance(sets[-1], dict) and sets[-1].get("digest") == digest
