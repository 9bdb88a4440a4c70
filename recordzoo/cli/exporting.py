"""`export`: a record set becomes files of another tool."""

from collections.abc import Sequence
from pathlib import Path

from recordzoo.cli import output
from recordzoo.cli.progress import make_progress
from recordzoo.cli.targets import find_record_set, refuse_urls
from recordzoo.exporting.job import ExportJob
from recordzoo.progress import format_bytes
from recordzoo.records.reader import RecordReader
from recordzoo.text import clean


def export_set(
    text: str,
    place: Path,
    to: str,
    splits: Sequence[str] | None,
    shard_bytes: int | None,
    workers: int | None,
    *,
    refresh: bool,
    as_json: bool,
) -> None:
    """Export a record set, and say what was written."""
    refuse_urls("--output", place)
    reader = RecordReader(find_record_set(text))
    job = ExportJob(reader, place, to, split=splits or None, shard_bytes=shard_bytes, progress=make_progress())
    done = job.run(workers=workers, refresh=refresh)
    count = sum(done.splits.values())
    named = ", ".join(f"{name} {number:,}" for name, number in done.splits.items() if name)
    files = f"{done.num_files:,} file{'' if done.num_files == 1 else 's'} ({format_bytes(done.num_bytes)})"
    how = "is there already" if done.was_ready else f"written, {files}"
    output.say(f"{clean(str(done.path))}: {how}, {count:,} samples{f' ({named})' if named else ''}")
    if as_json:
        output.put_json(
            {
                "path": str(done.path),
                "to": done.to,
                "splits": dict(done.splits),
                "samples": count,
                "files": done.num_files,
                "size_bytes": done.num_bytes,
                "was_ready": done.was_ready,
            }
        )
