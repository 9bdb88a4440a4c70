"""Commands on record sets: `merge`, `split`, `subset`; `export`; `copy`, `push`, `pull`."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import recordzoo
from recordzoo.base.files import free_bytes, read_text
from recordzoo.base.progress import format_bytes, format_seconds
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, clean, counted, shown
from recordzoo.cli.options import (
    Converters,
    DryRun,
    Json,
    RecordSet,
    RecordSetHere,
    data_argument,
    directory_option,
    find_local_set,
    find_record_set,
    flag,
    make_progress,
    option,
    parse_bytes,
    path_argument,
    path_option,
    put,
    put_json,
    refuse_urls,
    say,
)
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.formats.export import WRITERS
from recordzoo.formats.export import export as export_set
from recordzoo.formats.samples import chosen_splits
from recordzoo.net.url import is_url
from recordzoo.records.arrays import map_file
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.sets.copy import Copy, copy_job, pull_job
from recordzoo.sets.push import Push, push_job
from recordzoo.sets.split import split_place

_NUMBERS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_MOST_INDICES = 1 << 32


Output = Annotated[Path, directory_option("The new record set's directory.", "--output")]


def merge(
    sets: Annotated[
        list[str],
        data_argument(
            "SET...", "Record sets, in this order: directories, URLs, or trees and lists that sets were made from."
        ),
    ],
    output: Output,
    classes: Annotated[
        str,
        option(
            "equal|union",
            "union: unite classes by name, and number labels anew. Default: the classes must be equal.",
            show_default=False,
        ),
    ] = "equal",
    split_of: Annotated[
        list[str] | None,
        path_option("SET=SPLIT", "All records of a set are this split of the new one; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Store the records of several sets, one after another, as one record set.

    The sets must have the same fields, stored alike. Splits of one name are put together. The new set shares the
    shards of the sets by hard links; from URLs and other file systems they are copied. To grow a set, merge it with
    the new records: recordzoo merge photos.records new.records --output bigger.records
    """
    paths = {name: str(find_record_set(name)) for name in sets}
    splits = _read_splits(split_of or [], paths)
    how: Any = classes  # Any: checked by `merge`
    make = partial(recordzoo.merge, [paths[name] for name in sets], output, classes=how, splits=splits)
    _make(make, output, " + ".join(map(shown, sets)), as_json=as_json)


def split(
    path: RecordSet,
    val: Annotated[str, option("SHARE", "The share of val: 10%, or 0.1.")],
    by: Annotated[str | None, option("FIELD", "Records with the same value of this field stay together.")] = None,
    seed: Annotated[int, option("N", "Another number gives another division.")] = 0,
    output: Annotated[
        Path | None,
        directory_option("The new record set's directory. Default: SET-split.records beside the set.", "--output"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Divide a record set into the splits train and val, in a new set that shares its shards.

    Each class has the same share of val. A split train is divided and other splits stay; without one, all records that
    are in no split are divided. The same set, share and seed give the same division.
    """
    found = str(find_record_set(path))
    make = partial(recordzoo.split, found, val, by=by, seed=seed, output=output)
    _make(make, output or split_place(found), shown(path), as_json=as_json)


def subset(
    path: RecordSet,
    output: Output,
    classes: Annotated[
        str | None, option("NAME,...", "Only these classes, by name or number; they are numbered anew, in this order.")
    ] = None,
    indices: Annotated[
        str | None,
        path_option(
            "LIST|FILE", "Only the records at these places, from 0: 0,5,10-19, or a file with a number a line, or .npy."
        ),
    ] = None,
    split: Annotated[str | None, option("NAME", "Only records of this split.")] = None,
    workers: Converters = None,
    as_json: Json = False,
) -> None:
    """Store some records of a set as a new record set.

    With several options, a record must fit all of them. Values are copied as they are and their checksums compared.
    Run the same command again to go on after any failure or interruption. In Python, recordzoo.subset() also shows
    some samples of a set without copying them.
    """
    found = str(find_record_set(path))
    names = None if classes is None else classes.split(",")
    places = None if indices is None else _read_indices(indices)
    make = partial(recordzoo.subset, found, classes=names, indices=places, split=split, output=output, workers=workers)
    _make(make, output, shown(path), as_json=as_json)


def _make(make: Callable[..., Path], place: Path, title: str, *, as_json: bool) -> None:
    """Make a record set and print the result."""
    refuse_urls("--output", place)
    was_ready, began = is_record_set(place), time.monotonic()  # another set is never replaced
    made = make(progress=make_progress())
    elapsed_s = time.monotonic() - began
    reader = RecordReader(made)
    how = "unchanged" if was_ready else f"made in {format_seconds(max(1, elapsed_s))}"
    say(f"{clean(title)}: ready, {counted(len(reader), 'record')} in {clean(str(made))}, {how}")
    if as_json:
        put_json(
            {
                "path": str(made),
                "digest": reader.digest,
                "records": len(reader),
                "was_ready": was_ready,
                "elapsed_s": round(elapsed_s, 3),
            }
        )


def _read_indices(text: str) -> NDArray[np.int64]:
    """Read places: "0,5,10-19", or a file with one number per line or an array of NumPy."""
    if _NUMBERS.fullmatch(text):
        ends = [tuple(map(int, each.split("-"))) for each in text.split(",")]
        if sum(max(0, each[-1] - each[0] + 1) for each in ends) > _MOST_INDICES or max(map(max, ends)) >> 62:
            raise ArgumentError(f"--indices {text[:40]}: that are more than {_MOST_INDICES:,}.")
        return np.concatenate([np.arange(each[0], each[-1] + 1, dtype=np.int64) for each in ends])
    if not (path := Path(text)).is_file():
        raise ArgumentError(f"--indices {shown(text)}: it must be numbers, such as 0,5,10-19, or a file of numbers.")
    try:
        found = map_file(path) if path.suffix == ".npy" else np.array(read_text(path).split(), int)
        if found.dtype == bool:
            raise ValueError("they are true and false")
        return np.asarray(found).astype(np.int64, casting="safe")
    except (ValueError, TypeError, EOFError, SourceError) as err:
        raise ArgumentError(f"--indices {text}: the file holds something else than whole numbers: {err}") from err


def _read_splits(words: Sequence[str], sets: Mapping[str, str]) -> dict[str, str]:
    """Read `SET=SPLIT` words, given the paths of the sets by their names on the command line."""
    found = {}
    for word in words:
        name, _, split = word.rpartition("=")
        if name not in sets or not split:
            raise ArgumentError(f"--split-of {shown(word)}: it must be SET=SPLIT, with one of the sets as it is given.")
        found[sets[name]] = split
    return found


def _complete_target(incomplete: str) -> list[str]:
    return [name for name in WRITERS if name.startswith(incomplete)]


def export(
    path: RecordSet,
    to: Annotated[str, option("|".join(WRITERS), "What is written.", autocompletion=_complete_target)],
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
    done = export_set(
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
    files = _files(len(sizes), sum(sizes))
    say(f"{clean(str(done))}: written, {files}, {counted(count, 'sample')}{f' ({named})' if named else ''}")
    if as_json:
        facts = {"to": to, "splits": splits, "samples": count, "files": len(sizes), "size_bytes": sum(sizes)}
        put_json({"path": str(done), **facts})


Replace = Annotated[bool, flag("--replace", "Replace another record set that is there. Default: that is an error.")]

Check = Annotated[
    bool, flag("--verify", "Read back every file of the copy and compare its hash, also where the store has one.")
]

Transfers = Annotated[int, option("N", "Files copied at a time.", "--workers", min=1)]


def copy(
    path: RecordSet,
    destination: Annotated[
        str, path_argument("DIR|URL", "Its new place: ends in .records, or is the folder in which it keeps its name.")
    ],
    replace: Replace = False,
    check: Check = False,
    workers: Transfers = 8,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Copy a record set to another place.

    Every file is compared with the hash in the manifest while it is copied. The copy appears in one step, complete.
    What was copied before an interruption is kept, and the same command goes on from there. From a URL this is
    `pull`, to a URL `push`.
    """
    here = path if is_url(path) else str(find_local_set(path, "copy"))
    job = copy_job(here, destination, replace=replace, verify=check, workers=workers, progress=make_progress())
    words = ("push", "pushed") if isinstance(job, Push) else ("copy", "copied")
    _end(job, *words, dry_run=dry_run, as_json=as_json)


def push(
    path: RecordSetHere,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Where it goes: s3://bucket/photos.records, or a folder there, in which it keeps its name.",
        ),
    ],
    replace: Replace = False,
    check: Check = False,
    card: Annotated[
        bool, typer.Option("--card/--no-card", help="On the Hugging Face Hub: write the dataset's card (README.md).")
    ] = True,
    workers: Transfers = 8,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Copy a record set to object storage.

    Files are compared with the manifest before they are sent. The manifest goes last: what was not pushed to its end
    is no record set. Files that are there already are not sent again, so the same command goes on after an
    interruption. To hf://datasets/USER/NAME all files go in one commit, with a card of the dataset.
    """
    if not is_url(destination):
        raise ArgumentError(
            f"{shown(destination)!r} is no URL, such as s3://bucket/datasets. On this machine: "
            f"{command('copy', path, destination)}"
        )
    here, progress = find_local_set(path, "push"), make_progress()
    job = push_job(here, destination, replace=replace, verify=check, card=card, workers=workers, progress=progress)
    _end(job, "push", "pushed", dry_run=dry_run, as_json=as_json)


def pull(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The record set: s3://bucket/photos.records, or the folder it is in.")
    ],
    destination: Annotated[
        str,
        path_argument(
            "DIR", "Its new place: ends in .records, or is the folder in which it keeps its name. Default: this one."
        ),
    ] = ".",
    replace: Replace = False,
    workers: Transfers = 8,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Copy a record set from object storage to this machine.

    Every file is compared with the hash in the manifest. The record set appears in one step, complete. What was
    fetched before an interruption is kept, and the same command goes on from there.
    """
    if not is_url(url):
        raise ArgumentError(f"{shown(url)!r} is no URL, such as s3://bucket/datasets/photos.records.")
    job = pull_job(url, destination, replace=replace, workers=workers, progress=make_progress())
    _end(job, "pull", "pulled", dry_run=dry_run, as_json=as_json)


def _end(job: Copy | Push, verb: str, participle: str, *, dry_run: bool, as_json: bool) -> None:
    """Copy a record set, or with `dry_run` plan it; print the result, for people or as JSON."""
    (job.plan if dry_run else job.run)()
    size, now = sum(file.size_bytes for file in job.files), sum(job.copied.values())
    place = job.target if isinstance(job, Copy) else job.url
    is_ready = job.was_ready if isinstance(job, Copy) else not job.copied
    whole, source = _files(len(job.files), size), str(job.source.place)
    if as_json:
        facts: dict[str, JSON] = {"digest": job.source.digest, "files": len(job.files), "size_bytes": size}
        if verb == "push":
            facts |= {"path": source, "url": str(place), "sent_files": len(job.copied), "sent_bytes": now}
        else:
            of, how_much = ("source", "copied_bytes") if verb == "copy" else ("url", "fetched_bytes")
            facts |= {"path": str(place), of: source, how_much: now, "was_ready": is_ready}
        put_json({**facts, "dry_run": dry_run})
        return
    if is_ready:
        text = f"{place} is complete already: {whole}. Nothing is {participle}."
        if isinstance(job, Copy) and not job.verify:  # their sizes were compared
            text += f" To compare every byte, run: {command('verify', job.target, '--full')}"
    elif dry_run:
        free = f", where {format_bytes(free_bytes(place.parent))} are free" if isinstance(place, Path) else ""
        text = f"would {verb} {_files(len(job.copied), now)} of {len(job.files):,} to {place}{free}."
    else:
        rest = "" if now == size else f", {_files(len(job.copied), now)} of them now"
        text = f"{participle} to {place}: {whole}{rest}."
    put(clean(text))


def _files(count: int, num_bytes: int) -> str:
    return f"{counted(count, 'file')} ({format_bytes(num_bytes)})"
