"""`verify`: is this record set whole?"""

import dataclasses
from pathlib import Path
from typing import Any

from recordzoo.bars import clean
from recordzoo.cli import output
from recordzoo.cli.exits import Exit
from recordzoo.cli.progress import make_progress
from recordzoo.errors import NotPreparedError

MAX_PROBLEMS_SHOWN = 50


def verify_set(path: Path, *, full: bool, as_json: bool) -> int:
    """Check a record set and print what was found; returns the exit code."""
    if not path.exists():
        raise NotPreparedError(f"There is no record set at {path}: it does not exist.", path=str(path))
    from recordzoo.cli.changed import say_changes
    from recordzoo.prepare.changes import recorded_changes
    from recordzoo.prepare.describe import MOST_NAMED
    from recordzoo.recipes.folder import TREE_FILE
    from recordzoo.recipes.listing import LIST_FILE
    from recordzoo.records.made_from import MADE_FROM_FILE
    from recordzoo.records.reader import RecordReader
    from recordzoo.records.verify import verify

    report = verify(path, full=full, progress=make_progress())
    changes = recorded_changes(RecordReader(path), full=True, progress=make_progress()) if report.ok else None
    if as_json:
        named = list(changes.found[:MOST_NAMED]) if changes else []
        output.put_json({"path": str(path), "full": full, "ok": report.ok, **_fields(report), "changes": named})
        return Exit.OK if report.ok else Exit.CORRUPT
    for note in report.notes:
        if not note.startswith(tuple(f"{name} is " for name in (TREE_FILE, LIST_FILE, MADE_FROM_FILE))):  # ours
            output.say(clean(note))
    shown = clean(str(path))
    checked = ", ".join(f"{key.replace('_', ' ')} {_shown(value)}" for key, value in report.checked.items())
    if report.ok:
        output.put(f"{shown}: ok ({checked})")
        say_changes(RecordReader(path), changes)
        return Exit.OK
    for problem in report.problems[:MAX_PROBLEMS_SHOWN]:
        output.put(clean(problem))
    more = len(report.problems) - MAX_PROBLEMS_SHOWN
    if more > 0:
        output.put(f"... and {more:,} more")
    output.say(
        f"error: {shown} is damaged: {len(report.problems):,} problem{'s' if len(report.problems) > 1 else ''}. "
        "Make it again with `recordzoo prepare ... --refresh`, or copy it again."
    )
    return Exit.CORRUPT


# Any: JSON values.
def _fields(report: Any) -> dict[str, Any]:
    """Take the report's lists as they are; its attributes are the JSON's keys."""
    document = dataclasses.asdict(report)
    return {key: document[key] for key in ("problems", "checked", "notes")}


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
