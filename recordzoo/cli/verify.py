"""`verify`: check a record set, and repair it."""

import dataclasses
from pathlib import Path
from typing import Annotated

from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean, name_first
from recordzoo.base.types import JSON
from recordzoo.cli import output, targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import AcceptTerms, Json, RecordSet, complete_path, flag, option
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.errors import ArgumentError
from recordzoo.net.url import Url
from recordzoo.preparing.changes import recorded_changes
from recordzoo.preparing.outlook import MOST_NAMED
from recordzoo.records.made_from import BESIDE
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import Report
from recordzoo.records.verify import verify as check
from recordzoo.repair import repair as repair_set

MAX_PROBLEMS_SHOWN = 50
_FILES_SHOWN = 5


def verify(
    path: RecordSet,
    full: Annotated[
        bool, flag("--full", "Also read every byte: hashes of all files, every record's checksum.")
    ] = False,
    repair: Annotated[
        bool, flag("--repair", "Check as --full does, and copy, pull or prepare a damaged set again.")
    ] = False,
    root: Annotated[
        Path | None,
        option(
            "PATH",
            "With --repair: where the raw data is (tree, list, or a dataset's root). Default: where it was.",
            autocompletion=complete_path,
        ),
    ] = None,
    download: Annotated[bool, flag("--download", "With --repair: download missing raw files.")] = False,
    accept_terms: AcceptTerms = False,
    as_json: Json = False,
) -> int:
    """Check whether a record set is undamaged, and repair it.

    Without --full, the contents of the shards are not read. --repair fetches the damaged files of a set that was copied
    or pulled from its original, and prepares any other set again: the same bytes as before, published in one step.
    """
    if repair:
        return _repair(path, root, download=download, accept_terms=accept_terms, as_json=as_json)
    if root is not None or download or accept_terms:
        raise ArgumentError("--root, --download and --accept-terms say how raw data is found; they need --repair.")
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


def _repair(text: str, root: Path | None, *, download: bool, accept_terms: bool, as_json: bool) -> int:
    """Repair a record set, and print what was done."""
    place = targets.find_local_set(text, "--repair")
    if root is None and place != Path(text) and Path(text).exists():
        root = Path(text)  # the tree or list that was named
    done = repair_set(place, root=root, download=download, accept_terms=accept_terms, progress=output.make_progress())
    reader = RecordReader(place)
    if as_json:
        repaired = {"files": list(done.report.damaged), "source": done.source}
        document = {"path": str(place), "full": True, "ok": True, **_fields(done.report), "changes": []}
        output.put_json({**document, "digest": reader.digest, "repaired": repaired})
        return Exit.OK
    if done.report.damaged:
        files = clean(name_first(done.report.damaged, _FILES_SHOWN))
        how = "fetched again from" if done.was_copied else "made again: the whole set was prepared from"
        said = f"repaired. {files} {'was' if len(done.report.damaged) == 1 else 'were'} {how} {clean(done.source)}. "
        said += "The hashes are those in the manifest."
    else:
        said = f"ok, nothing to repair. {_checked(reader, done.report, full=True)}"
    output.put(wrapped(f"{clean(str(place))}: {said}", wrapping_width()))
    return Exit.OK


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
    """Describe what was not checked in a damaged set, and how to repair it."""
    unread = "" if full else "The records themselves were not read; --full does that. "
    if MANIFEST_NAME in report.damaged:
        unread = "Nothing behind the manifest was checked. "
    if isinstance(place, Url):
        return f"{unread}Push the record set again, with --verify."
    return f"{unread}To repair it, run: {clean(command('verify', place, '--repair'))}"


def _fields(report: JSON) -> dict[str, JSON]:
    """Return the report's attributes as JSON."""
    document = dataclasses.asdict(report)
    return {key: document[key] for key in ("problems", "checked", "notes", "damaged", "stopped")}
