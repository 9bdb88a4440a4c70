"""The command that writes a record set as files of other tools: `export`."""

from pathlib import Path
from typing import Annotated

from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.cli.options import Json, RecordSet, flag, option, parse_bytes, path_option
from recordzoo.cli.output import make_progress, put_json, say
from recordzoo.cli.targets import find_record_set, refuse_urls
from recordzoo.exporting.job import run_export
from recordzoo.formats import WRITTEN
from recordzoo.records.reader import RecordReader


def _complete_target(incomplete: str) -> list[str]:
    return [name for name in WRITTEN if name.startswith(incomplete)]


def export(
    path: RecordSet,
    to: Annotated[str, option("|".join(WRITTEN), "What is written.", autocompletion=_complete_target)],
    output: Annotated[Path, path_option("DIR", "The directory that is made; of a zip the file.")],
    split: Annotated[
        list[str] | None, option("NAME", "Only this split; may be repeated. Default: all, if they share no samples.")
    ] = None,
    shard_size: Annotated[str | None, option("SIZE", "Target size of a file (100M, 1G). Default: 256M.")] = None,
    workers: Annotated[
        int | None,
        option("N", "Processes that write. Default: a core each, at most 8; one for less than 256 MiB.", min=1),
    ] = None,
    refresh: Annotated[bool, flag("--refresh", "Replace another export that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a record set as files that other programs read.

    The stored bytes of the images are copied; labels, class names, splits, names and other fields go where the format
    has a place for them. The output appears when it is complete; the same command goes on after an interruption.
    """
    shard_bytes = None if shard_size is None else parse_bytes("--shard-size", shard_size)
    refuse_urls("--output", output)
    done = run_export(
        RecordReader(find_record_set(path)),
        output,
        to,
        split=split or None,
        shard_bytes=shard_bytes,
        workers=workers,
        refresh=refresh,
        progress=make_progress(),
    )
    count = sum(done.splits.values())
    named = ", ".join(f"{name} {number:,}" for name, number in done.splits.items() if name)
    files = f"{done.num_files:,} file{'' if done.num_files == 1 else 's'} ({format_bytes(done.num_bytes)})"
    how = "is there already" if done.was_ready else f"written, {files}"
    say(f"{clean(str(done.path))}: {how}, {count:,} samples{f' ({named})' if named else ''}")
    if as_json:
        put_json(
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
