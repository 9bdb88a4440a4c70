"""`verify`: check a record set, and name the command that makes a damaged one again."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated

from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.cli import output, targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import Json, RecordSet, flag
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.errors import RecordError
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.changes import recorded_changes
from recordzoo.preparing.kinds import remake_command
from recordzoo.preparing.outlook import MOST_NAMED
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import BESIDE, COPIED_FILE
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.verify import Report
from recordzoo.records.verify import verify as check

MAX_PROBLEMS_SHOWN = 50


def verify(
    path: RecordSet,
    full: Annotated[
        bool, flag("--full", "Also read every byte: hashes of all files, every record's checksum.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Check whether a record set is undamaged.

    Without --full, the contents of the shards are not read. Damaged files are named, with the command that copies or
    prepares the set again.
    """
    place = targets.find_record_set(path)
    report = check(place, full=full, progress=output.make_progress())
    changes = None
    if report.ok and isinstance(place, Path):  # raw files are on the machine where a set at a URL was made
        changes = recorded_changes(RecordReader(place), full=True, progress=output.make_progress())
    if as_json:
        named = list(changes.found[:MOST_NAMED]) if changes else []
        output.put_json({"path": str(place), "full": full, "ok": report.ok, **_fields(report), "changes": named})
        return Exit.OK if report.ok else Exit.CORRUPT
    ours = tuple(f"{name} is " for name in BESIDE)
    for note in report.notes:
        if not note.startswith(ours):
            output.say(clean(note))
    shown = clean(str(place))
    if report.ok:
        output.put(wrapped(f"{shown}: ok. {_checked(RecordReader(place), report, full=full)}", wrapping_width()))
        if changes:
            targets.say_changes(RecordReader(place), changes)
        return Exit.OK
    for problem in report.problems[:MAX_PROBLEMS_SHOWN]:
        output.put(clean(problem))
    more = len(report.problems) - MAX_PROBLEMS_SHOWN
    if more > 0:
        output.put(f"... and {more:,} more")
    count = f"{len(report.problems):,} problem{'s' if len(report.problems) > 1 else ''}"
    found = f"{count}, where the check stopped; there may be more" if report.stopped else count
    output.say(f"error: {shown} is damaged: {found}. {_advice(place, report, full=full)}")
    return Exit.CORRUPT


def _checked(reader: RecordReader, report: Report, *, full: bool) -> str:
    """Describe what was checked and what was not."""
    records = f"{len(reader):,} record{'' if len(reader) == 1 else 's'}"
    files, size = f"{report.checked['files']:,} files", format_bytes(report.checked["bytes"])
    if full and isinstance(reader.path, Url):
        return (
            f"Every byte of {files} ({size}), with {records}, was fetched and compared with the hashes in the manifest."
        )
    if full:
        return f"Every byte of {files} ({size}) and the checksum of each of {records} were checked."
    unread = format_bytes(sum(shard.size_bytes for shard in reader.manifest.shards))
    return (
        f"The sizes of {files}, and the contents of the manifest, indices and labels ({size}) were checked. The "
        f"{records} themselves ({unread}) were not read; --full does that."
    )


def _advice(place: Path | Url, report: Report, *, full: bool) -> str:
    """Describe what was not checked in a damaged set, and how to make it again."""
    unread = "" if full else "The records themselves were not read; --full does that. "
    if MANIFEST_NAME in report.damaged:
        unread = "Nothing behind the manifest was checked. "
    return unread + ("Push the record set again, with --verify." if isinstance(place, Url) else _remedy(place))


def _remedy(place: Path) -> str:
    """Name the command that copies or prepares a damaged record set again."""
    origin = _copied_from(place)
    try:
        reader = RecordReader(place)
    except RecordError:  # its manifest is damaged: it cannot be replaced, because it may be anything
        how = f"run: {command('copy', origin, place)}" if origin else "prepare the data again."
        return f"Move {clean(str(place))} away, then {clean(how)}"
    if origin:
        return f"To copy it again, run: {clean(command('copy', origin, place, '--verify', '--replace'))}"
    again = remake_command(reader)
    if again:
        return f"To make it again, run: {clean(again)}"
    if reader.manifest.kind is SetKind.COMBINED:
        return "Move it away, then run merge, split or subset again."
    return "Run the command or the program again that made it, with --refresh (refresh=True)."


def _copied_from(place: Path) -> str:
    """Return the path or URL from which a record set was copied or pulled; "" if there is none, or it is gone."""
    try:
        origin = str(json.loads((place / COPIED_FILE).read_bytes())["from"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    if is_url(origin) or (is_record_set(Path(origin)) and not os.path.samefile(origin, place)):
        return origin
    return ""


def _fields(report: JSON) -> dict[str, JSON]:
    """Return the report's attributes as JSON."""
    document = dataclasses.asdict(report)
    return {key: document[key] for key in ("problems", "checked", "notes", "damaged", "stopped")}
