"""`verify`: is this record set whole?"""

import dataclasses
from typing import TYPE_CHECKING

from recordzoo.aliases import JSON
from recordzoo.cli import output, targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.progress import make_progress
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.program import command
from recordzoo.progress import format_bytes
from recordzoo.text import clean

if TYPE_CHECKING:
    from recordzoo.records.reader import RecordReader
    from recordzoo.records.verify import Report

MAX_PROBLEMS_SHOWN = 50


def verify_set(text: str, *, full: bool, as_json: bool) -> int:
    """Check a record set and print what was found; returns the exit code."""
    place = targets.find_record_set(text)
    from recordzoo.cli.changed import say_changes
    from recordzoo.preparing.changes import recorded_changes
    from recordzoo.preparing.describe import MOST_NAMED
    from recordzoo.recipes.folder import TREE_FILE
    from recordzoo.recipes.listing import LIST_FILE
    from recordzoo.records.made_from import MADE_FROM_FILE
    from recordzoo.records.reader import RecordReader
    from recordzoo.records.verify import verify

    report = verify(place, full=full, progress=make_progress())
    changes = recorded_changes(RecordReader(place), full=True, progress=make_progress()) if report.ok else None
    if as_json:
        named = list(changes.found[:MOST_NAMED]) if changes else []
        output.put_json({"path": str(place), "full": full, "ok": report.ok, **_fields(report), "changes": named})
        return Exit.OK if report.ok else Exit.CORRUPT
    ours = tuple(f"{name} is " for name in (TREE_FILE, LIST_FILE, MADE_FROM_FILE))  # beside the format's own files
    for note in report.notes:
        if not note.startswith(ours):
            output.say(clean(note))
    shown = clean(str(place))
    if report.ok:
        output.put(wrapped(f"{shown}: ok. {_checked(RecordReader(place), report, full=full)}", wrapping_width()))
        say_changes(RecordReader(place), changes)
        return Exit.OK
    for problem in report.problems[:MAX_PROBLEMS_SHOWN]:
        output.put(clean(problem))
    more = len(report.problems) - MAX_PROBLEMS_SHOWN
    if more > 0:
        output.put(f"... and {more:,} more")
    output.say(
        f"error: {shown} is damaged: {len(report.problems):,} problem{'s' if len(report.problems) > 1 else ''}. "
        f"Make it again with `{command('prepare')} ... --refresh`, or copy it again."
    )
    return Exit.CORRUPT


def _checked(reader: "RecordReader", report: "Report", *, full: bool) -> str:
    """Say what was checked, and what was not."""
    records = f"{len(reader):,} record{'' if len(reader) == 1 else 's'}"
    files, size = f"{report.checked['files']:,} files", format_bytes(report.checked["bytes"])
    if full:
        return f"Every byte of {files} ({size}) and the checksum of each of {records} were checked."
    unread = format_bytes(sum(shard.size_bytes for shard in reader.manifest.shards))
    return (
        f"The sizes of {files}, and the contents of the manifest, indices and labels ({size}) were checked. The "
        f"{records} themselves ({unread}) were not read; --full does that."
    )


def _fields(report: JSON) -> dict[str, JSON]:
    """Take the report's lists as they are; its attributes are the JSON's keys."""
    document = dataclasses.asdict(report)
    return {key: document[key] for key in ("problems", "checked", "notes")}
