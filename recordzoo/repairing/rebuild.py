"""A record set whose manifest or arrays are damaged: converted again from all raw data, compared, then exchanged."""

import filecmp
import json
import os
from pathlib import Path

from typing_extensions import override

from recordzoo import catalogue
from recordzoo.errors import ManifestError, OtherSourceError
from recordzoo.preparing.build import Build
from recordzoo.preparing.job import Job
from recordzoo.preparing.options import PrepareOptions
from recordzoo.progress import Progress
from recordzoo.recipes.base import Recipe
from recordzoo.recipes.beside import BESIDE
from recordzoo.records.arrays import file_name, load_array
from recordzoo.records.files import Directory
from recordzoo.records.manifest import MANIFEST_NAME, Manifest
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import capacity_for, stored_bytes
from recordzoo.records.verify import Report
from recordzoo.repairing.origin import Facts
from recordzoo.repairing.raw import find_raw
from recordzoo.repairing.shards import map_bytes, target_bytes

_PAGE = 4096
_NAMES_SHOWN = 5


def rebuild(
    place: Path, report: Report, root: Path | None, download: bool, options: PrepareOptions, progress: Progress
) -> str:
    """Make a record set again from all of its raw data; publish it if it is the same as before.

    Args:
        place: The damaged record set.
        report: What is damaged.
        root: Where the raw data is; None: where it was, or beside the record set.
        download: Download raw data that is not there.
        options: How raw data is fetched and read.
        progress: Told of the work.

    Returns:
        Which raw data was read.

    Raises:
        OtherSourceError: The result is another record set; nothing was replaced.
        RecordZooError: As `repair`.
    """
    reader = None if MANIFEST_NAME in report.damaged else RecordReader(place)
    facts = _guessed(place) if reader is None else Facts.of(reader)
    raw = find_raw(facts, root, download, options, progress)
    progress.note(
        f"{', '.join(report.damaged[:_NAMES_SHOWN])}: made again from all of {raw.source.description}, because the "
        "other files do not say what belongs there."
    )
    how: PrepareOptions = {**options, "records_dir": place, "refresh": True, "prepare": True, "progress": progress}
    how |= _layout(Directory(place), facts, report)
    if reader is not None:
        how["on_error"] = "skip" if reader.manifest.skipped else "keep"
        how["check_hash"] = all(file.hash is not None for file in reader.manifest.raw_files)
    _Rebuild(raw.recipe, raw.root, download, how, None if reader is None else reader.digest).run()
    return raw.source.description


class _Rebuild(Job):
    """A preparation whose result is published only if it is the record set that is there, undamaged.

    Args:
        digest: That record set's digest; None if its manifest is damaged: then all its other files must be the same.
    """

    def __init__(self, recipe: Recipe, root: Path, download: bool, options: PrepareOptions, digest: str | None) -> None:
        super().__init__(recipe, root, download, options)
        self._digest = digest

    @property
    @override
    def is_published(self) -> bool:
        return True  # though it may lack files that every set has

    @override
    def publish(self, build: Build, digest: str) -> None:
        if self._digest is None:
            other = _other_files(self.target, build.set_folder)
            problem = f"other files than those that are there: {', '.join(other[:_NAMES_SHOWN])}" if other else ""
        else:
            problem = "" if digest == self._digest else "another record set"
        if problem:
            build.remove()
            raise OtherSourceError(
                f"{self.target}: what is in {self.root} gives {problem}. Nothing was replaced. The raw data may have "
                f"changed since, or the set was made with other options. To replace it, run: "
                f"{self.recipe.command(self.root)} --refresh",
                path=str(self.target),
            )
        build.publish(replace=True, damaged=True)


def _other_files(old: Path, new: Path) -> list[str]:
    """Name the files of a set that are not, byte for byte, in another; without its manifest."""
    # Without `BESIDE`: the raw data may lie elsewhere now.
    names = sorted({entry.name for entry in os.scandir(old)} - {MANIFEST_NAME, *BESIDE})
    return [name for name in names if not (new / name).is_file() or not filecmp.cmp(old / name, new / name, False)]


def _guessed(place: Path) -> Facts:
    """Return what can be known of a set whose manifest is damaged: what can still be read there, or its name.

    Raises:
        ManifestError: Neither says what it was made from.
    """
    try:
        document = json.loads((place / MANIFEST_NAME).read_bytes())
        facts = Facts(
            place, str(document["dataset"]), str(document["part"]), str(document["variant"]), dict(document["metadata"])
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        facts = None
    if facts is None or facts.dataset not in ("folder", "flat", "list", "imported", *catalogue.names()):
        facts = Facts.by_name(place)
    if facts is None:
        raise ManifestError(
            f"{place}: its manifest is damaged, and its name does not say what it was made from. Move it away and "
            "prepare the data again.",
            path=str(place),
        )
    return facts


def _layout(directory: Directory, facts: Facts, report: Report) -> PrepareOptions:
    """Find out with which options the shards were cut."""
    written = facts.metadata.get("written")
    if isinstance(written, dict):
        return {"num_shards": written.get("num_shards"), "shard_bytes": written.get("shard_bytes")}
    if facts.reader is None:
        names = sorted(path.name for path in directory.path.glob("shard-*.lmdb"))
        sizes = target_bytes(directory, ((name, _PAGE) for name in names))
    else:
        shards = facts.reader.manifest.shards
        if _is_numbered(directory, facts.reader.manifest, report):
            return {"num_shards": len(shards)}
        sizes = target_bytes(directory, ((spec.name, spec.page_size) for spec in shards))
    return {"shard_bytes": sizes[0]} if sizes else {}


def _is_numbered(directory: Directory, manifest: Manifest, report: Report) -> bool:
    """Whether the number of shards was given: each map is then as large as its first value asked for, or doubled."""
    names = [f"{name}.index" for name in manifest.blobs]
    if any(file_name(name) in report.damaged for name in names):
        return False
    firsts: dict[int, int] = {}
    for name in names:
        index = load_array(directory, name, manifest.arrays[name])
        for row in index[index["slot"] == 0]:
            firsts[int(row["shard"])] = int(row["length"])
    found = [
        (size, firsts[number])
        for number, spec in enumerate(manifest.shards)
        for size in map_bytes(directory, spec.name, spec.page_size)
        if number in firsts
    ]
    return bool(found) and all(_is_doubled(size, capacity_for(stored_bytes(first))) for size, first in found)


def _is_doubled(size: int, capacity: int) -> bool:
    return size % capacity == 0 and (size // capacity).bit_count() == 1
