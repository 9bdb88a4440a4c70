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
from recordzoo.copying.arrival import Arrived
from recordzoo.copying.copy import CopyJob, PullJob, refuse_two_urls
from recordzoo.copying.outgoing import Pushed
from recordzoo.copying.push import push_job
from recordzoo.errors import ArgumentError
from recordzoo.net.url import Url, is_url
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
    refuse_two_urls(path, destination)
    if is_url(destination):
        push(path, destination, replace, check, workers=workers, dry_run=dry_run, as_json=as_json)
        return
    kind = PullJob if is_url(path) else CopyJob
    source = path if is_url(path) else str(targets.find_local_set(path, "copy"))
    job = kind(source, Path(destination), replace, workers, make_progress(), check)
    done = job.plan() if dry_run else job.run()
    text = _arrived(done, "copy", "copied", "copied", dry_run=dry_run)
    facts = {"source": done.source, "copied_bytes": done.fetched_bytes, "was_ready": done.was_ready}
    _print(done, done.path, text, facts, dry_run=dry_run, as_json=as_json)


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
    place = targets.find_local_set(path, "push")
    job = push_job(
        place, destination, replace=replace, verify=check, card=card, workers=workers, progress=make_progress()
    )
    done = job.plan() if dry_run else job.run()
    facts = {"url": done.url, "sent_files": done.sent_files, "sent_bytes": done.sent_bytes}
    _print(done, job.path, _pushed(done, dry_run=dry_run), facts, dry_run=dry_run, as_json=as_json)


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
    if is_url(destination):
        raise ArgumentError(f"{Url.parse(destination)} is a URL. A record set is pulled into a directory.")
    job = PullJob(url, Path(destination), replace=replace, workers=workers, progress=make_progress())
    done = job.plan() if dry_run else job.run()
    text = _arrived(done, "fetch", "fetched", "pulled", f" from {done.source}", dry_run=dry_run)
    facts = {"url": done.source, "fetched_bytes": done.fetched_bytes, "was_ready": done.was_ready}
    _print(done, done.path, text, facts, dry_run=dry_run, as_json=as_json)


def _print(
    done: Pushed | Arrived, path: Path, text: str, facts: dict[str, JSON], *, dry_run: bool, as_json: bool
) -> None:
    """Print what was copied, for people or as JSON."""
    if as_json:
        common = {"path": str(path), "digest": done.digest, "files": done.num_files, "size_bytes": done.num_bytes}
        put_json({**common, "dry_run": dry_run, **facts})
    else:
        put(wrapped(clean(text), wrapping_width()))


def _pushed(done: Pushed, *, dry_run: bool) -> str:
    if not done.sent_files:
        how = "" if done.is_compared else ", as far as sizes tell (--verify reads it back)"
        return f"{done.url} is complete already{how}: {_files(done.num_files, done.num_bytes)}. Nothing is sent."
    sent = _files(done.sent_files, done.sent_bytes)
    there = done.num_files - done.sent_files
    guess = "" if done.is_compared else ", as far as sizes tell"
    rest = f"; {there:,} {'is' if there == 1 else 'are'} there already" if there else ""
    if dry_run:
        return f"would send {sent} to {done.url}{rest}{guess if rest else ''}."
    return f"pushed to {done.url}: {sent} sent{rest}."


def _arrived(done: Arrived, verb: str, participle: str, whole: str, origin: str = "", *, dry_run: bool) -> str:
    files = _files(done.num_files, done.num_bytes)
    if done.was_ready:
        return f"{done.path} is there already: the record set of {done.source}. Nothing is {participle}."
    size = format_bytes(done.fetched_bytes)
    if dry_run:
        free = format_bytes(free_bytes(done.path.parent))
        return f"would {verb} {size} of {files}{origin} to {done.path}, where {free} are free."
    now = "" if done.fetched_bytes == done.num_bytes else f", {size} of it {participle} now"
    return f"{whole} to {done.path}: {files}{now}."


def _files(count: int, num_bytes: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'} ({format_bytes(num_bytes)})"
