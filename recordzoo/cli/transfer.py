"""`push`, `pull` and `copy`: a record set to object storage, from there to this machine, and within it."""

import dataclasses
from pathlib import Path

from recordzoo.addresses import shown
from recordzoo.aliases import JSON
from recordzoo.cli import output, targets
from recordzoo.cli.exits import Exit
from recordzoo.cli.progress import make_progress
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.copying.arrival import Arrived
from recordzoo.copying.copy import CopyJob, refuse_two_urls
from recordzoo.copying.pull import PullJob
from recordzoo.copying.push import Pushed, PushJob
from recordzoo.errors import ArgumentError
from recordzoo.program import command
from recordzoo.progress import format_bytes
from recordzoo.publish.space import free_bytes
from recordzoo.remote.url import Url, is_url
from recordzoo.text import clean


@dataclasses.dataclass(frozen=True, slots=True)
class PushOptions:
    """How `push` was asked for; see `recordzoo.push`."""

    replace: bool
    verify: bool
    workers: int
    dry_run: bool


@dataclasses.dataclass(frozen=True, slots=True)
class PullOptions:
    """How `pull` was asked for; see `recordzoo.pull`."""

    replace: bool
    workers: int
    dry_run: bool


def push_set(text: str, destination: str, options: PushOptions, *, as_json: bool) -> int:
    """Push a record set, and print what was done; returns the exit code."""
    if not is_url(destination):
        raise ArgumentError(
            f"{shown(destination)!r} is no URL, such as s3://bucket/datasets. On this machine: "
            f"{command('copy', text, destination)}"
        )
    path = targets.find_local_set(text, "push")
    job = PushJob(
        path,
        destination,
        replace=options.replace,
        verify=options.verify,
        workers=options.workers,
        progress=make_progress(),
    )
    done = job.plan() if options.dry_run else job.run()
    if as_json:
        sent = {"sent_files": done.sent_files, "sent_bytes": done.sent_bytes}
        output.put_json({**_document(done, job.path, dry_run=options.dry_run), **sent})
        return Exit.OK
    output.put(wrapped(clean(_pushed(done, dry_run=options.dry_run)), wrapping_width()))
    return Exit.OK


def pull_set(text: str, destination: str, options: PullOptions, *, as_json: bool) -> int:
    """Pull a record set, and print what was done; returns the exit code."""
    if not is_url(text):
        raise ArgumentError(f"{shown(text)!r} is no URL, such as s3://bucket/datasets/photos.records.")
    if is_url(destination):
        raise ArgumentError(f"{Url.parse(destination)} is a URL. A record set is pulled into a directory.")
    job = PullJob(text, Path(destination), replace=options.replace, workers=options.workers, progress=make_progress())
    done = job.plan() if options.dry_run else job.run()
    if as_json:
        fetched = {"fetched_bytes": done.fetched_bytes, "was_ready": done.was_ready}
        output.put_json({**_document(done, done.path, dry_run=options.dry_run), **fetched})
        return Exit.OK
    output.put(wrapped(clean(_pulled(done, dry_run=options.dry_run)), wrapping_width()))
    return Exit.OK


def copy_set(text: str, destination: str, options: PushOptions, *, as_json: bool) -> int:
    """Copy a record set to any place, and print what was done; returns the exit code."""
    refuse_two_urls(text, destination)
    if is_url(destination):
        return push_set(text, destination, options, as_json=as_json)
    kind = PullJob if is_url(text) else CopyJob
    source = text if is_url(text) else str(targets.find_local_set(text, "copy"))
    job = kind(source, Path(destination), options.replace, options.workers, make_progress(), options.verify)
    done = job.plan() if options.dry_run else job.run()
    if as_json:
        counts = {"copied_bytes": done.fetched_bytes, "was_ready": done.was_ready}
        document = {**_document(done, done.path, dry_run=options.dry_run), "source": done.source, **counts}
        del document["url"]
        output.put_json(document)
        return Exit.OK
    output.put(wrapped(clean(_copied(done, dry_run=options.dry_run)), wrapping_width()))
    return Exit.OK


def _document(done: Pushed | Arrived, path: Path, *, dry_run: bool) -> dict[str, JSON]:
    """Return the JSON fields that `push`, `pull` and `copy` have in common."""
    return {
        "path": str(path),
        "url": done.url if isinstance(done, Pushed) else done.source,
        "digest": done.digest,
        "files": done.num_files,
        "size_bytes": done.num_bytes,
        "dry_run": dry_run,
    }


def _pushed(done: Pushed, *, dry_run: bool) -> str:
    if not done.sent_files:
        how = "" if done.is_compared else ", as far as sizes tell (--verify reads it back)"
        return f"{done.url} is complete already{how}: {_files(done.num_files, done.num_bytes)}. Nothing is sent."
    sent = _files(done.sent_files, done.sent_bytes)
    there = done.num_files - done.sent_files
    rest = f"; {there:,} {'is' if there == 1 else 'are'} there already" if there else ""
    if dry_run:
        return f"would send {sent} to {done.url}{f'{rest}, as far as sizes tell' if rest else ''}."
    return f"pushed to {done.url}: {sent} sent{rest}."


def _pulled(done: Arrived, *, dry_run: bool) -> str:
    if done.was_ready:
        return f"{done.path} is there already: the record set of {done.source}. Nothing is fetched."
    if dry_run:
        free = format_bytes(free_bytes(done.path.parent))
        return (
            f"would fetch {format_bytes(done.fetched_bytes)} of {_files(done.num_files, done.num_bytes)} from "
            f"{done.source} to {done.path}, where {free} are free."
        )
    fetched = "" if done.fetched_bytes == done.num_bytes else f", {format_bytes(done.fetched_bytes)} of it fetched now"
    return f"pulled to {done.path}: {_files(done.num_files, done.num_bytes)}{fetched}."


def _copied(done: Arrived, *, dry_run: bool) -> str:
    files = _files(done.num_files, done.num_bytes)
    if done.was_ready:
        return f"{done.path} is there already: the record set of {done.source}. Nothing is copied."
    if dry_run:
        free = format_bytes(free_bytes(done.path.parent))
        return f"would copy {format_bytes(done.fetched_bytes)} of {files} to {done.path}, where {free} are free."
    now = "" if done.fetched_bytes == done.num_bytes else f", {format_bytes(done.fetched_bytes)} of it copied now"
    return f"copied to {done.path}: {files}{now}."


def _files(count: int, num_bytes: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'} ({format_bytes(num_bytes)})"
