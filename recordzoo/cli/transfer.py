"""Commands that copy a record set: `copy`, `push` and `pull`."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.base.addresses import shown
from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean
from recordzoo.base.types import JSON
from recordzoo.cli import targets
from recordzoo.cli.options import DryRun, Json, RecordSet, data_argument, flag, option, path_argument
from recordzoo.cli.output import make_progress, put, put_json
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.copying.copy import Copy, copy_job, pull_job
from recordzoo.copying.push import Push, push_job
from recordzoo.errors import ArgumentError
from recordzoo.net.url import is_url
from recordzoo.publish.space import free_bytes

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
    here = path if is_url(path) else str(targets.find_local_set(path, "copy"))
    job = copy_job(here, destination, replace=replace, verify=check, workers=workers, progress=make_progress())
    words = ("push", "pushed") if isinstance(job, Push) else ("copy", "copied")
    _end(job, *words, dry_run=dry_run, as_json=as_json)


def push(
    path: Annotated[
        str,
        data_argument(
            "NAME|PATH",
            "The record set: its directory, the tree or list that it was made from, or a dataset prepared here.",
        ),
    ],
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
    here, progress = targets.find_local_set(path, "push"), make_progress()
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
    done = job.plan() if dry_run else job.run()
    size, now = sum(file.size_bytes for file in done.files), sum(done.copied.values())
    whole, source, place = f"{_files(len(done.files), size)}", str(done.source.place), str(done.place)
    if as_json:
        facts: dict[str, JSON] = {"digest": done.source.digest, "files": len(done.files), "size_bytes": size}
        if verb == "push":
            facts |= {"path": source, "url": place, "sent_files": len(done.copied), "sent_bytes": now}
        else:
            of, how_much = ("source", "copied_bytes") if verb == "copy" else ("url", "fetched_bytes")
            facts |= {"path": place, of: source, how_much: now, "was_ready": done.was_ready}
        put_json({**facts, "dry_run": dry_run})
        return
    if done.was_ready:
        text = f"{place} is complete already: {whole}. Nothing is {participle}."
    elif dry_run:
        free = f", where {format_bytes(free_bytes(done.place.parent))} are free" if isinstance(done.place, Path) else ""
        text = f"would {verb} {_files(len(done.copied), now)} of {len(done.files):,} to {place}{free}."
    else:
        rest = "" if now == size else f", {_files(len(done.copied), now)} of them now"
        text = f"{participle} to {place}: {whole}{rest}."
    put(wrapped(clean(text), wrapping_width()))


def _files(count: int, num_bytes: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'} ({format_bytes(num_bytes)})"
