"""The kinds of record sets: the class that opens each, its title, and its raw data."""

import bisect
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo import catalogue
from recordzoo.base.settings import command
from recordzoo.errors import ArgumentError
from recordzoo.recipes import lists as listing
from recordzoo.recipes.columns import LIST_ENDINGS, Columns
from recordzoo.recipes.declared import is_image, name_key
from recordzoo.recipes.folders import without_record_sets
from recordzoo.recipes.variant import Variant
from recordzoo.records.arrays import leads_out
from recordzoo.records.kinds import SetKind
from recordzoo.records.made_from import LAYOUT_FILE, TREE_FILE, MadeFrom
from recordzoo.records.manifest import ENDING, ORIGINAL, Manifest
from recordzoo.records.reader import RecordReader


@dataclass(frozen=True, slots=True)
class KnownDirectories:
    """The content of `TREE_FILE`: the tree's path and the modification time of each directory, in ns."""

    root: str
    times: Mapping[str, int]

    @staticmethod
    def of(reader: RecordReader) -> "KnownDirectories | None":
        """Read `TREE_FILE`; None if it is missing or invalid: it is only an aid."""
        try:
            document = json.loads(reader.extra(TREE_FILE) or b"")
            root, directories = document["root"], document["directories"]
            times = {str(name): int(time) for name, time in directories.items()}
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            return None
        if not isinstance(root, str):
            return None
        return KnownDirectories(root, {name: time for name, time in times.items() if is_inside(name)})

    def any_exists(self, base: str) -> bool:
        """Whether any directory of the tree exists; an empty mount point has none."""
        return any(os.path.isdir(os.path.join(base, name)) for name in self.times if name and "/" not in name)

    def differences(self, reader: RecordReader, base: str, *, new_names: bool) -> tuple[list[str], list[str]]:
        """Return the modified directories and the names that differ in them."""
        skipped: dict[str, set[str]] = {}
        for name in reader.manifest.skipped:
            skipped.setdefault(name.rpartition("/")[0], set()).add(name)
        written: list[str] = []
        found: list[str] = []
        for directory, time in self.times.items():
            path = os.path.join(base, directory)
            try:
                if os.stat(path).st_mtime_ns == time:
                    continue
                folders, files = _list_directory(path, directory)
            except OSError:
                found.append(f"{directory}/ is gone")
                continue
            written.append(directory)
            inside = {name for name in self.times if name and name.rpartition("/")[0] == directory}
            if new_names:
                found += [f"{name}/ is new" for name in sorted(folders - inside)]
            if not directory:
                continue
            stored = {reader.names[position] for position in directory_positions(reader.names, directory)}
            stored |= skipped.get(directory, set())
            if new_names:
                found += [f"{name} is new" for name in sorted(files - stored)]
            found += [f"{name} is gone" for name in sorted(stored - files)]
        return written, found


def is_inside(name: str) -> bool:
    """Whether a name stays inside the tree; it may come from an untrusted file."""
    return not leads_out(name) and "\0" not in name


def directory_positions(names: Sequence[str], directory: str) -> range:
    """Return the range of one directory's files among names in ImageFolder's order."""
    start = stop = bisect.bisect_left(names, name_key(f"{directory}/"), key=name_key)
    while stop < len(names) and names[stop].rpartition("/")[0] == directory:
        stop += 1
    return range(start, stop)


def _list_directory(path: str, directory: str) -> tuple[set[str], set[str]]:
    """List a directory's folders (except record sets) and images, as names relative to the tree."""
    start = f"{directory}/" if directory else ""
    folders: set[str] = set()
    files: set[str] = set()
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir():
                folders.add(entry.name)
            elif is_image(entry.name):
                files.add(start + entry.name)
    return {start + name for name in without_record_sets(Path(path), list(folders))}, files


def _any_class(manifest: Manifest) -> tuple[str, str, Mapping[str, Any]]:
    return "recordzoo.families.record_set", "RecordDataset", {}


def _no_words(reader: RecordReader, root: str) -> list[str]:
    return []


def _nowhere(reader: RecordReader) -> Iterable[Path]:
    return ()


@dataclass(frozen=True, slots=True)
class KindFacts:
    """What differs between kinds of record sets.

    Attributes:
        text: The content of such a set; "": the dataset's name describes it.
        places: Where the raw data may be: its former path, from the files beside the manifest; then the path that
            belongs to a set in the default place of `prepare`.
        words: The arguments of ``recordzoo prepare`` that rebuild a set from the raw data in a directory.
        opens: Return module, name and further arguments of the class that opens a set.
    """

    text: str
    places: Callable[[RecordReader], Iterable[Path]] = _nowhere
    words: Callable[[RecordReader, str], list[str]] = _no_words
    opens: Callable[[Manifest], tuple[str, str, Mapping[str, Any]]] = _any_class


def kind_of(manifest: Manifest) -> KindFacts:
    """Return the facts of a record set's kind."""
    return KINDS[manifest.kind]


def text_of(manifest: Manifest) -> str:
    """Return the title of a record set's data."""
    label = f"{manifest.dataset}.{manifest.part}" if manifest.part else manifest.dataset
    return kind_of(manifest).text or label


def refresh_command(reader: RecordReader, root: str, *more: str) -> str:
    """Return the command line that prepares a record set from the raw data in a directory; without ``--refresh``.

    Args:
        more: Further words of the command line.
    """
    manifest = reader.manifest
    words = kind_of(manifest).words(reader, root)
    with contextlib.suppress(ArgumentError):  # a variant of a later version
        words += [] if manifest.variant == ORIGINAL else Variant.parse(manifest.variant).flags.split()
    words += ["--on-error", "skip"] if manifest.skipped else []
    return command("prepare", *words, *_layout_words(reader), *more)


def remake_command(reader: RecordReader) -> str:
    """Return the command line that prepares a damaged record set again, and replaces it; "" if its data is unknown."""
    places = list(kind_of(reader.manifest).places(reader))
    if not places:
        return ""
    place = next((each for each in places if each.exists()), places[0])
    return refresh_command(reader, str(place), "--output", str(reader.folder), "--refresh")


def _layout_words(reader: RecordReader) -> list[str]:
    """Return the options for the shard layout, if the file beside the set names one."""
    try:
        given = json.loads(reader.extra(LAYOUT_FILE) or b"{}")
        found = {"--shards": given.get("num_shards"), "--shard-size": given.get("shard_bytes")}
    except (ValueError, AttributeError, RecursionError):  # untrusted
        return []
    return [word for name, value in found.items() if isinstance(value, int) for word in (name, str(value))]


def _is_known(manifest: Manifest) -> bool:
    return manifest.dataset in catalogue.names()  # a later version may know more


def _zoo_class(manifest: Manifest) -> tuple[str, str, Mapping[str, Any]]:
    if not _is_known(manifest) or "image" not in manifest.blobs:
        return _any_class(manifest)
    entry = catalogue.entry(manifest.dataset)
    return entry.dataset_module, entry.class_names[0], entry.part(manifest.part).arguments


def _folder_class(manifest: Manifest) -> tuple[str, str, Mapping[str, Any]]:
    return catalogue.class_modules()["ImageFolderRecord"], "ImageFolderRecord", {}


def _list_words(reader: RecordReader, root: str) -> list[str]:
    written = reader.manifest.metadata.get("written")
    layout = written if isinstance(written, dict) else {}
    seed = layout.get("shuffle_seed")
    order = [] if seed is None else ["--shuffle", str(seed)]
    return [listing.list_path(reader) or root, *Columns.from_json(layout.get("columns")).words(), *order]


def _annotations(reader: RecordReader) -> str:
    return str(reader.manifest.metadata.get("annotations"))


def _tree(reader: RecordReader) -> Iterable[Path]:
    found = KnownDirectories.of(reader) or MadeFrom.of(reader)
    if found is not None:
        yield Path(found.root if isinstance(found, KnownDirectories) else found.base)


def _list_place(reader: RecordReader) -> Iterable[Path]:
    path = listing.list_path(reader)
    return () if path is None else (Path(path),)


def _tree_beside(reader: RecordReader) -> Path:
    path = reader.folder
    return path.with_name(path.name.removesuffix(ENDING).removesuffix(f"-{reader.manifest.variant}"))


KINDS = {
    SetKind.ZOO: KindFacts(
        "",
        places=lambda reader: [*_tree(reader), *([reader.folder.parent] if _is_known(reader.manifest) else [])],
        words=lambda reader, root: [text_of(reader.manifest), "--root", root],
        opens=_zoo_class,
    ),
    SetKind.FOLDER: KindFacts(
        "images in classes",
        places=lambda reader: [*_tree(reader), _tree_beside(reader)],
        words=lambda _, root: [root],
        opens=_folder_class,
    ),
    SetKind.FLAT: KindFacts(
        "images without classes",
        places=lambda reader: [*_tree(reader), _tree_beside(reader)],
        words=lambda _, root: [root, "--from", "flat"],
    ),
    SetKind.LIST: KindFacts(
        "images of a list",
        places=lambda reader: [*_list_place(reader), *map(reader.folder.with_suffix, LIST_ENDINGS)],
        words=_list_words,
    ),
    SetKind.ANNOTATED: KindFacts(
        "images with annotations",
        places=lambda reader: [*_tree(reader), _tree_beside(reader)],
        words=lambda reader, root: [root, "--from", _annotations(reader)],
    ),
    SetKind.IMPORTED: KindFacts(""),
    SetKind.COMBINED: KindFacts("other record sets"),
    SetKind.OWN: KindFacts("own data"),
}
