"""`export`: write the output to a temporary directory beside its destination; publish it with one rename."""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from recordzoo.base import durable
from recordzoo.base.bars import default_progress
from recordzoo.base.crash_points import crash_point
from recordzoo.base.meant import did_you_mean
from recordzoo.base.progress import Progress
from recordzoo.base.types import JSON
from recordzoo.base.workers import default_workers
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.exporting import work
from recordzoo.exporting.work import Finished
from recordzoo.formats import WRITTEN
from recordzoo.formats.find import writer_class
from recordzoo.formats.samples import Content, chosen_splits
from recordzoo.formats.writing import Shard, Writer
from recordzoo.formats.zip import FILE_NAME, read_note
from recordzoo.net.url import Url, is_url
from recordzoo.publish.build import Build
from recordzoo.publish.output import Output
from recordzoo.publish.publishing import never, publish
from recordzoo.records.reader import RecordReader

NOTE_NAME = ".recordzoo-export.json"
"""File in the output that names its record set and options."""

_LAYOUT = 1  # raise it when the same set gives other files
_ONE_PROCESS_BYTES = 256 << 20  # two processes took 1.8 s of CPU time more than one, for 27 MB (2026-11-23)


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export.

    Attributes:
        path: The output.
        to: Its format.
        splits: The number of samples of each split; one split "" if the set has none.
        num_files: Number of sample files written.
        num_bytes: Size of these files.
        was_ready: Whether the output already existed; the numbers are then not counted.
    """

    path: Path
    to: str
    splits: dict[str, int]
    num_files: int = 0
    num_bytes: int = 0
    was_ready: bool = False


def export(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    split: str | Sequence[str] | None = None,
    shard_bytes: int | None = None,
    workers: int | None = None,
    refresh: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write a record set as files that other programs read: the stored bytes of the images, labels, classes, splits.

    * "folder": a tree of class folders, as torchvision's ``ImageFolder`` reads it.
    * "webdataset": tar files with ``.jpg``, ``.cls`` and ``.json`` for each sample.
    * "tfrecord": files of ``tf.train.Example`` with ImageNet's keys.
    * "parquet": files for ``datasets.load_dataset``, with the features ``Image`` and ``ClassLabel``.
    * "zip": the tree of class folders in a zip.

    The output appears when it is complete. After an interruption, the same call continues with the finished files; a
    zip is restarted. The same record set gives the same samples in the same files, with any number of workers. Images
    stored as pixels become PNG files.

    Args:
        source: The record set's directory, or its URL.
        output: The directory to create; for a zip, the file.
        to: The format.
        split: The split, or several. Default: all, which must not share samples; samples without a split form the split
            "rest".
        shard_bytes: Target size of a file in bytes. Default: 256 MiB.
        workers: Number of processes. Default: the cores available to this process, at most 8; one for less than 256
            MiB.
        refresh: Replace another export at `output`. Default: raise.
        progress: Receives the progress. Default: as in `PrepareOptions`.

    Returns:
        The output.

    Raises:
        ArgumentError: An argument is invalid, or splits share samples.
        OtherSourceError: Something else is at `output`, or the record set has no images.
        CorruptRecordError: A stored value is damaged.
        PrepareError: The disk is full, a process was killed, or a package is missing; finished files are kept.

    Examples:
        >>> import recordzoo
        >>> recordzoo.export("photos.records", "photos-tar", to="webdataset")  # doctest: +SKIP
        PosixPath('/home/me/photos-tar')
    """
    done = run_export(
        RecordReader(source),
        output,
        to,
        split=split,
        shard_bytes=shard_bytes,
        workers=workers,
        refresh=refresh,
        progress=progress,
    )
    return done.path


def run_export(
    reader: RecordReader,
    output: str | os.PathLike[str],
    to: str,
    *,
    split: str | Sequence[str] | None = None,
    shard_bytes: int | None = None,
    workers: int | None = None,
    refresh: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Run an export, and say what was written; see `export`."""
    if to not in WRITTEN:
        hint = did_you_mean(to, WRITTEN)
        raise ArgumentError(f"Unknown format {to!r} (to, --to). Valid are {', '.join(WRITTEN)}.{hint}")
    splits = chosen_splits(reader, split)
    writer = writer_class(to)(Content(reader), list(splits))
    path = _place(output, reader, writer)
    for name, value in (("shard_bytes", shard_bytes), ("workers", workers)):
        if value is not None and value < 1:
            raise ArgumentError(f"Argument {name} is {value}; it must be at least 1.")
    target_bytes = writer.shard_bytes if shard_bytes is None else shard_bytes
    plan = writer.note = {
        "export": to,
        "layout": _LAYOUT,
        "set": reader.digest,
        "splits": list(splits),
        "shard_bytes": target_bytes,
    }
    shards = writer.shards(splits, target_bytes)
    progress = progress or default_progress()
    finished = None

    def write(build: Build) -> None:
        nonlocal finished
        finished = _write(writer, shards, build, workers, progress)

    publish(
        Output(path, _is_export, NOTE_NAME, FILE_NAME if writer.ending else "", elsewhere="name another output"),
        lambda: _is_ready(path, plan, refresh),
        progress,
        write,
        again=refresh,
        may_replace=_is_export if refresh else never,
    )
    counts = {name: len(positions) for name, positions in splits.items()}
    if finished is None:
        return Exported(path, to, counts, was_ready=True)
    return Exported(path, to, counts, finished.num_files, finished.num_bytes)


def _write(writer: Writer, shards: Sequence[Shard], build: Build, workers: int | None, progress: Progress) -> Finished:
    """Write the output into a build."""
    lengths = writer.content.reader.lengths("image")
    sizes = {shard.name: int(lengths[shard.positions].sum()) for shard in shards}
    total = sum(sizes.values())
    build.claim(dict(writer.note), total)
    finished = Finished(build.set, shards)
    kept = sum(size for name, size in sizes.items() if name in finished)
    progress.begin(f"exporting {writer.content.reader.path.name} to {writer.name}", total, kept)
    number = workers or (default_workers() if total - kept > _ONE_PROCESS_BYTES else 1)
    work.write(writer, shards, finished, build, number, progress)
    progress.end()
    writer.finish(build.set, shards, finished.in_order(shards))
    finished.forget()
    crash_point("export.complete")
    if not writer.ending:
        durable.write_file(build.set / NOTE_NAME, json.dumps(writer.note).encode())
        durable.sync_directory(build.set)
    return finished


def _is_ready(path: Path, plan: Mapping[str, JSON], refresh: bool) -> bool:
    """Whether this export already exists."""
    if not os.path.lexists(path):
        return False
    there = _read_note(path)
    if there == plan:
        return True
    if there is None:
        what = "is there, and is no export of recordzoo. Move it away, or name another output"
    elif refresh:
        return False
    else:
        what = "is an export of another record set, or with other options. Pass --refresh (refresh=True) to replace"
        what += " it, or name another output"
    raise OtherSourceError(f"{path} {what}.", path=str(path))


def _is_export(path: Path) -> bool:
    return _read_note(path) is not None


def _place(output: str | os.PathLike[str], reader: RecordReader, writer: Writer) -> Path:
    """Return the output as an absolute path."""
    if is_url(output):
        raise ArgumentError(f"{Url.parse(output)} is a URL; an export is written to this machine.")
    place = Path(output).expanduser().absolute()
    if writer.ending and place.suffix.lower() != writer.ending:
        raise ArgumentError(f"{place} is to be a file that ends in {writer.ending}: {place.name}{writer.ending}.")
    if isinstance(reader.path, Path) and place.resolve().is_relative_to(reader.path.resolve()):
        raise ArgumentError(f"{place} is in the record set {reader.path}; name an output beside it.")
    return place


def _read_note(path: Path) -> dict[str, JSON] | None:
    """Return the plan of the export at a path; None if there is none."""
    if path.is_file():
        return cast(dict[str, JSON] | None, read_note(path))
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((path / NOTE_NAME).read_bytes())
        return found if isinstance(found, dict) else None
    return None
