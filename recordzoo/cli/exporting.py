"""The command that writes a record set as files of other tools: `export`."""

from pathlib import Path
from typing import Annotated

from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.cli.options import Json, RecordSet, option, parse_bytes, path_option
from recordzoo.cli.output import make_progress, put_json, say
from recordzoo.cli.targets import find_record_set, refuse_urls
from recordzoo.exporting import job
from recordzoo.formats.samples import chosen_splits
from recordzoo.records.reader import RecordReader


def _complete_target(incomplete: str) -> list[str]:
    return [name for name in job.WRITERS if name.startswith(incomplete)]


def export(
    path: RecordSet,
    to: Annotated[str, option("|".join(job.WRITERS), "What is written.", autocompletion=_complete_target)],
    output: Annotated[Path, path_option("DIR", "The directory that is made.")],
    split: Annotated[
        list[str] | None, option("NAME", "Only this split; may be repeated. Default: all, if they share no samples.")
    ] = None,
    shard_size: Annotated[str, option("SIZE", "Target size of a file with many samples (100M, 1G).")] = "256M",
    as_json: Json = False,
) -> None:
    """Write a record set as files that other programs read.

    The stored bytes of the images are copied; labels, class names, splits, names and other fields go where the format
    has a place for them. The output appears when it is complete, and must not be there before.
    """
    refuse_urls("--output", output)
    source = find_record_set(path)
    done = job.export(
        source,
        output,
        to=to,
        split=split or None,
        shard_bytes=parse_bytes("--shard-size", shard_size),
        progress=make_progress(),
    )
    splits = {name: len(positions) for name, positions in chosen_splits(RecordReader(source), split or None).items()}
    count, sizes = sum(splits.values()), [file.stat().st_size for file in done.rglob("*") if file.is_file()]
    named = ", ".join(f"{name} {number:,}" for name, number in splits.items() if name)
    files = f"{len(sizes):,} file{'' if len(sizes) == 1 else 's'} ({format_bytes(sum(sizes))})"
    say(f"{clean(str(done))}: written, {files}, {count:,} samples{f' ({named})' if named else ''}")
    if as_json:
        facts = {"to": to, "splits": splits, "samples": count, "files": len(sizes), "size_bytes": sum(sizes)}
        put_json({"path": str(done), **facts})
