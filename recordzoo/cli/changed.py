"""A warning where raw files have changed since a record set was made of them."""

from recordzoo.base.text import clean
from recordzoo.cli import output
from recordzoo.preparing.changes import Changes, change_text, recorded_changes, refresh_command
from recordzoo.records.reader import RecordReader


def say_changes(reader: RecordReader, changes: Changes | None = None) -> None:
    """Print a warning if raw files have changed.

    Args:
        reader: The record set.
        changes: What was found; by default a bounded number of files is compared now.
    """
    changes = recorded_changes(reader) if changes is None else changes
    if changes:
        text = change_text(reader, changes, refresh_command(reader, changes.root))
        output.say(f"warning: {clean(text)}")
