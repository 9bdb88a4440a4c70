"""`export`: write a record set for other programs, here as a tree of class folders; publish it with one rename."""

import contextlib
import csv
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from recordzoo.base.files import rename, sync_directory
from recordzoo.base.process import crash_point
from recordzoo.base.progress import Progress, default_progress
from recordzoo.base.text import did_you_mean, name_first
from recordzoo.errors import ArgumentError, OtherSourceError, RecordZooError
from recordzoo.formats.base import CLASSES_NAME
from recordzoo.formats.samples import Content, Export, choose, chosen_splits, file_name, split_ending, write_classes
from recordzoo.formats.to_hf import write_parquet
from recordzoo.formats.webdataset import write_webdataset
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.publish import Output, check_space, disk_error
from recordzoo.records.reader import RecordReader

_TABLE_NAME = "labels.csv"  # of images without classes


def export(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    split: str | Sequence[str] | None = None,
    shard_bytes: int = 256 << 20,
    progress: Progress | None = None,
) -> Path:
    """Write a record set as files that other programs read: the stored bytes of the images, labels, classes, splits.

    * "folder": a tree of class folders, as torchvision's ``ImageFolder`` reads it.
    * "webdataset": tar files with ``.jpg``, ``.cls`` and ``.json`` for each sample.
    * "parquet": files for ``datasets.load_dataset``, with the features of `to_hf`.

    The output appears when it is complete; nothing is replaced. The same record set gives the same samples in the same
    files. Images stored as pixels become PNG files.

    Args:
        source: The record set's directory, or its URL.
        output: The directory to create.
        to: The format.
        split: The split, or several. Default: all, which must not share samples; samples without a split form the split
            "rest".
        shard_bytes: Target size of a file with many samples in bytes. Default: 256 MiB.
        progress: Receives the progress. Default: as in `PrepareOptions`.

    Returns:
        The output.

    Raises:
        ArgumentError: An argument is invalid, or splits share samples.
        OtherSourceError: Something is at `output`, or the record set has no images.
        CorruptRecordError: A stored value is damaged.
        PrepareError: The disk is full, or a package is missing.

    Examples:
        >>> import recordzoo
        >>> recordzoo.export("photos.records", "photos-tar", to="webdataset")  # doctest: +SKIP
        PosixPath('/home/me/photos-tar')
    """
    if to not in WRITERS:
        valid = ", ".join(WRITERS)
        raise ArgumentError(f"Unknown format {to!r} (to, --to). Valid are {valid}.{did_you_mean(to, WRITERS)}")
    if shard_bytes < 1:
        raise ArgumentError(f"Argument shard_bytes is {shard_bytes}; it must be at least 1.")
    reader = RecordReader(source)
    content, path = Content(reader), _place(output, reader)
    splits, lengths = chosen_splits(reader, split), reader.lengths("image")
    total = sum(int(lengths[positions].sum(dtype="i8")) for positions in splits.values())
    progress = progress or default_progress()
    with _published(path, total) as folder:
        progress.begin(f"exporting {reader.path.name} to {to}", total)
        WRITERS[to](folder, Export(content, splits, shard_bytes, progress))
        progress.end()
    return path


def _place(output: str | os.PathLike[str], reader: RecordReader) -> Path:
    """Return the output as an absolute path; refuse what is there."""
    if is_url(output):
        raise ArgumentError(f"{Url.parse(output)} is a URL; an export is written to this machine.")
    path = Path(output).expanduser().absolute()
    if isinstance(reader.path, Path) and path.resolve().is_relative_to(reader.path.resolve()):
        raise ArgumentError(f"{path} is in the record set {reader.path}; name an output beside it.")
    if os.path.lexists(path):
        raise OtherSourceError(f"{path} is there already. Move it away, or name another output.", path=str(path))
    return path


@contextlib.contextmanager
def _published(path: Path, num_bytes: int) -> Iterator[Path]:
    """Yield a private directory beside a path, to be filled; it gets the path's name, or is removed after an error."""
    private = path.with_name(f"{path.name}.export-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_space(path.parent, num_bytes, "name an output")
        private.mkdir()
        yield private
        crash_point("export.complete")
        for parent, _, names in os.walk(private):
            for name in names:
                with open(os.path.join(parent, name), "r+b") as file:
                    os.fsync(file.fileno())
            sync_directory(Path(parent))
        rename(private, path)
        sync_directory(path.parent)
    except BaseException as err:
        shutil.rmtree(private, ignore_errors=True)
        if isinstance(err, OSError) and not isinstance(err, RecordZooError):
            raise disk_error(err, Output(path, elsewhere="name another output", is_resumable=False)) from err
        raise


def write_folder(folder: Path, export: Export) -> None:
    """Write ``split/class/name``; one split has no folder of its own.

    A split without classes, or with labels beyond them, has no class folders but rows in `_TABLE_NAME`.
    """
    content, taken, rows = export.content, {CLASSES_NAME, _TABLE_NAME}, list[tuple[str, str | float]]()
    classes = [choose(taken, file_name(name)) for name in content.classes]
    if others := [f"{made!r} ({name!r})" for made, name in zip(classes, content.classes, strict=True) if made != name]:
        export.progress.note(f"These folders cannot have the names of their classes: {name_first(others, 5)}.")
    for split, positions in export.splits.items():
        top = f"{split}/" if len(export.splits) > 1 else ""
        is_known = content.has_classes(positions)
        for name in classes if is_known else [""]:  # empty ones, too: ImageFolder numbers the directories
            (folder / top / name).mkdir(parents=True, exist_ok=True)
        for sample in export.read(positions):
            start = top if not is_known or sample.label is None else f"{top}{classes[sample.label]}/"
            stem, ending = split_ending(sample.name)
            parts = [file_name(part) for part in stem.split("/") if part] or ["_"]
            ending = sample.ending if content.is_raw or not ending else ending
            name = choose(taken, parts[-1], file_name("_".join(parts)), start=start, end=ending)
            (folder / name).write_bytes(sample.image)
            if not is_known and (label := content.plain_label(sample)) is not None:
                rows.append((name, label))
    write_classes(folder, content)
    if classes != sorted(classes):
        export.progress.note(f"ImageFolder numbers classes by name, but the record set as in {CLASSES_NAME}.")
    if not rows and not classes and content.reader.manifest.default_target:
        export.progress.note("The labels are neither numbers nor texts, and are not written; --to parquet has them.")
    if rows:
        with open(folder / _TABLE_NAME, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("file_name", "label"), *rows])


WRITERS: Mapping[str, Callable[[Path, Export], None]] = {
    "folder": write_folder,
    "webdataset": write_webdataset,
    "parquet": write_parquet,
}
"""What writes each format into an empty directory."""
