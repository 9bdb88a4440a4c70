"""A damaged record set → the same bytes as before: copied or pulled again, or prepared again."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from recordzoo.base.bars import default_progress
from recordzoo.base.progress import Progress
from recordzoo.copying.arrival import Arrival
from recordzoo.copying.copy import CopyJob, PullJob
from recordzoo.errors import OtherSourceError
from recordzoo.net.url import is_url
from recordzoo.preparing.options import Options, PrepareOptions
from recordzoo.preparing.rebuild import rebuild
from recordzoo.records.made_from import BESIDE, COPIED_FILE
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import is_record_set
from recordzoo.records.verify import Report, verify


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did.

    Attributes:
        report: What `verify` found before it.
        source: The record set from which the damaged files were copied, or the raw data; "" if nothing was damaged.
        was_copied: Whether `source` is a record set.
    """

    report: Report
    source: str = ""
    was_copied: bool = False


def repair(
    path: Path, *, root: Path | None = None, download: bool = False, **options: Unpack[PrepareOptions]
) -> Repaired:
    """Check a record set and, if it is damaged, replace it in one step; the bytes are those from before.

    If the set was copied or pulled, its damaged files are fetched from the same place. Any other set is prepared
    again, and replaced only if the result is the same.

    Args:
        path: The record set's directory.
        root: Where raw data is: prepare the set again, even if it was copied. None: where the data was when the set was
            made, or beside the set.
        download: Download raw data that is not there.
        **options: Those of `PrepareOptions` that say how raw data is fetched and read.

    Raises:
        ManifestError: It is not a record set; or its manifest is damaged, and it was not copied.
        NotPreparedError: The raw data is not there.
        OtherSourceError: There is another record set at the place of the original, or the raw data gives another one.
            Nothing was replaced.
        CorruptRecordError: The original is damaged, too.
        RemoteError: The server of the original cannot be reached, or refuses access.
        FormatVersionError: The set was written in a later format.
        RecordZooError: As `ensure`.
    """
    place = Path(os.path.realpath(path))
    how = Options.of(options, "repair()")
    progress = how.progress or default_progress()
    report = verify(place, full=True, progress=progress, max_problems=None)
    if not report.damaged:
        return Repaired(report)
    whole = frozenset({file.name for file in os.scandir(place)}.difference(report.damaged, BESIDE, [MANIFEST_NAME]))
    job = _copy_again(place, whole, progress) if root is None else None
    if job is None:
        return Repaired(report, str(rebuild(place, root, download, dataclasses.replace(how, progress=progress))))
    return Repaired(report, job.run().source, was_copied=True)


def _copy_again(place: Path, whole: frozenset[str], progress: Progress) -> Arrival | None:
    """Return the copy that fetches the damaged files; None if the set is no copy, or its original is gone."""
    try:
        said = json.loads((place / COPIED_FILE).read_bytes())
        source, digest = str(said["from"]), str(said["digest"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    if not is_url(source) and (not is_record_set(Path(source)) or os.path.samefile(source, place)):
        progress.note(f"{source}, from which {place} was copied, is no longer there.")
        return None
    job = (PullJob if is_url(source) else CopyJob)(source, place, replace=True, progress=progress, whole=whole)
    if job.origin.digest != digest:
        raise OtherSourceError(
            f"{place}: {source}, from which it was copied, holds another record set now. Nothing was replaced. Pass "
            "the place of the raw data (--root), or copy or pull that set with --replace.",
            path=str(place),
        )
    return job
