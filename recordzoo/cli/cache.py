"""`recordzoo cache`: list what recordzoo wrote to the disk, and delete some of it; nothing else is ever deleted."""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from recordzoo.base import settings
from recordzoo.base.files import read_small, sync_directory
from recordzoo.base.process import who_holds
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean, counted, name_first
from recordzoo.cli import options
from recordzoo.cli.app import Exit
from recordzoo.cli.options import DryRun, Json, data_argument, flag, path_argument, table, wrapping_width
from recordzoo.errors import ArgumentError, NotPreparedError, RecordError, RecordZooError
from recordzoo.net.cache import Cache
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.publish import LOCK, Build, Output, build_path
from recordzoo.preparing.raw import is_marked, mark_path, remove_marked
from recordzoo.records.manifest import ENDING, MANIFEST_NAME, manifest_digest
from recordzoo.records.reader import RecordReader, is_record_set
from recordzoo.records.writer import BESIDE, strangers

_DEPTH = 2  # levels of directories below a root that are searched: torchvision keeps raw files in MNIST/raw
SET, RAW, CACHED, BUILD = "record set", "raw file", "cached set", "interrupted build"

_IN_CACHE = re.compile(r"shard-[0-9]{5,7}\.lmdb|[a-z0-9_.-]+\.npy|.+\.(marks|address)|\..+\.(lock|part)")
_BUILD = re.compile(r"(?P<set>.+)\.build(-[0-9a-f]{8})?")
_IN_BUILD = re.compile(r"plan\.json|lock|set|old|replacing|u[0-9]{5,}.*|.*\.(tmp|new)")  # docs/decisions/preparing.md


@dataclass(frozen=True, slots=True)
class Item:
    """A file or directory that recordzoo wrote.

    Attributes:
        name: A record set's name, the name of a raw file, or the address of a cached set.
        last_used: About when it was read or written last, as in ISO 8601.
        obstacle: Why it is not deleted. "": it may be deleted.
    """

    kind: str
    path: Path
    name: str
    size_bytes: int
    last_used: str
    obstacle: str = ""


def ls(
    folders: Annotated[
        list[Path] | None,
        path_argument(
            "DIR",
            "Look in these directories and two levels below them. Default: where sets were prepared, and the cache of "
            "sets at URLs.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """List what recordzoo wrote: record sets, downloaded raw files, cached sets of URLs, and interrupted builds.

    "USED ABOUT" is the later of the times of the last reading and writing. Many systems note reading once a day, or
    not at all.
    """
    if missing := [folder for folder in folders or () if not folder.is_dir()]:
        raise NotPreparedError(f"{missing[0]} is no directory.", path=str(missing[0]))
    places = [place.absolute() for place in folders or [*(settings.known_roots() or [Path()]), *_cache_folder()]]
    items = _find_items(places)
    if as_json:
        options.put_json({"items": [asdict(item) for item in items]})
    elif items:
        options.put(_table(items))
        options.say(_summary(items))
    else:
        options.say(f"Nothing that recordzoo wrote was found in {name_first(list(map(str, places)), 3)}.")
    return Exit.OK


def rm(
    names: Annotated[
        list[str],
        data_argument("PATH|URL", "Record sets; cached sets, by their address; or other paths that `cache ls` lists."),
    ],
    dry_run: DryRun = False,
    yes: Annotated[bool, flag("--yes", "Do not ask; needed where there is no terminal to ask on.", "-y")] = False,
) -> int:
    """Delete record sets, or other things that recordzoo wrote.

    What is being prepared or fetched is not deleted, and no set that holds files of yours.
    """
    items = list(dict.fromkeys(map(_find_item, names)))
    left = {item: item.obstacle for item in items if item.obstacle}
    chosen = [item for item in items if not item.obstacle]
    if chosen:
        options.put(_table(chosen))
    if chosen and not dry_run:
        if not (yes or options.confirm(f"Delete {_summary(chosen)}?")):
            options.say("Nothing is deleted.")
            return Exit.FAILED
        left |= {item: reason for item in chosen if (reason := _remove(item))}
    for item, reason in left.items():
        options.say(f"error: {clean(str(item.path))} is not deleted: {clean(reason)}.")
    if done := [item for item in chosen if item not in left]:
        options.say(f"{'Would delete' if dry_run else 'Deleted'} {_summary(done)}.")
    return Exit.FAILED if left else Exit.OK


def _find_item(name: str) -> Item:
    """Find the item at a path or a URL, or the record set that a tree or a dataset means."""
    path = Path(name)
    if is_url(name):
        cache, address = Cache(), str(Url.parse(name))
        known = cache.addresses()
        if address not in known:
            raise NotPreparedError(f"{address} is not in the cache {cache.folder}. See: recordzoo cache ls")
        path = cache.folder / known[address]
    elif not path.is_symlink() and not path.is_file() and _describe(path.absolute()) is None:
        path = Path(str(options.find_record_set(name)))
    if path.is_symlink():
        raise ArgumentError(f"{path} is a link. Nothing is deleted through links; name {os.path.realpath(path)}.")
    found = _describe(Path(os.path.realpath(path)))
    if found is None:
        raise ArgumentError(
            f"{path} is not deleted: it is no record set with a readable manifest, and no other file or folder that "
            "recordzoo is known to have written.",
            path=str(path),
        )
    return found


def _remove(item: Item) -> str:
    """Delete an item unless it has changed; return the reason why it is left, "" if it is deleted."""
    path, now = item.path, _describe(item.path)  # the user may have answered the question minutes later
    if now is None or now.kind != item.kind or now.obstacle:
        return now.obstacle if now is not None and now.obstacle else "it is not what it was"
    try:
        if item.kind == CACHED:
            return "" if Cache(path.parent).remove_set(path.name) else "some of its files are in use"
        if item.kind == RAW:
            remove_marked(path)
        elif item.kind == BUILD:
            if problem := _remove_build(path):
                return problem
        else:
            build = Build(Output(path))
            if not build.try_lock():
                return "another process works on it"
            try:
                removed = path.with_name(f"{path.name}.build-{uuid.uuid4().hex[:8]}")  # listed after a kill
                removed.mkdir()
                path.rename(removed / "old")
                shutil.rmtree(removed)
            finally:
                build.release()
        sync_directory(path.parent)
    except (OSError, RecordZooError) as err:
        return str(err)
    return ""


def _remove_build(path: Path) -> str:
    """Delete an interrupted build, as `_remove`; a record set that is in it, and files of others, get their place."""
    build = Build(Output(path.with_name(_BUILD.sub(r"\g<set>", path.name))))
    if path != build.path:  # of a process without locks, or of a deleted set
        build.path = path
    elif not build.try_lock(makes=False):
        return "another process works on it"
    build.remove()
    return "some of its files cannot be deleted" if path.exists() else ""


def _find_items(places: Iterable[Path]) -> list[Item]:
    """Find everything that recordzoo wrote in these directories and two levels below; links are not followed."""
    found: dict[Path, Item] = {}
    for top in map(os.path.realpath, places):
        for folder, folders, files in os.walk(top):
            here = [Path(folder, name) for name in (*folders, *files)]
            found.update((path, item) for path in here if not path.is_symlink() and (item := _describe(path)))
            is_deep = len(Path(folder).relative_to(top).parts) == _DEPTH
            folders[:] = [n for n in folders if not is_deep and n[0] != "." and Path(folder, n) not in found]
    return sorted(found.values(), key=lambda item: (str(item.path.parent), item.kind != SET, item.path.name))


def _describe(path: Path) -> Item | None:
    """Describe what recordzoo wrote at a path; None for anything else."""
    with contextlib.suppress(OSError, RecordError):  # it is gone, or may not be read, or is damaged
        if path.is_file():
            return _item(RAW, path, path.name) if mark_path(path).is_file() and is_marked(path) else None
        names = os.listdir(path)
        build = _BUILD.fullmatch(path.name)
        if build is not None and (not names or any(map(_IN_BUILD.fullmatch, names))):
            foreign = [name for name in names if not _IN_BUILD.fullmatch(name)]
            return _item(BUILD, path, build["set"].removesuffix(ENDING), foreign, who_holds(path / LOCK))
        if re.fullmatch("[0-9a-f]{64}", path.name) and path.parent in _cache_folder():
            if MANIFEST_NAME in names and manifest_digest(read_small(path / MANIFEST_NAME)) != path.name:
                return None
            cache = Cache(path.parent)
            address = min((url for url, digest in cache.addresses().items() if digest == path.name), default="")
            foreign = [n for n in names if n not in (MANIFEST_NAME, *BESIDE) and not _IN_CACHE.fullmatch(n)]
            who = "another process" if cache.is_coming(path.name) else ""
            return _item(CACHED, path, address or path.name[:16], foreign, who)
        if not is_record_set(path):
            return None
        RecordReader(path)
        return _item(SET, path, path.name.removesuffix(ENDING), strangers(path), who_holds(build_path(path) / LOCK))
    return None


def _item(kind: str, path: Path, name: str, foreign: Sequence[str] = (), used_by: str = "") -> Item:
    size, last = 0, 0.0
    for file in path.rglob("*") if path.is_dir() else [path]:
        with contextlib.suppress(OSError):  # it is gone
            facts = file.lstat()
            used = facts.st_mtime if file.name == MANIFEST_NAME else max(facts.st_mtime, facts.st_atime)
            size, last = size + facts.st_size, max(last, used)  # the manifest was read just now
    obstacle = f"{used_by} works on it" if used_by else ""
    if foreign and not obstacle:
        obstacle = f"it holds files that recordzoo did not write ({name_first(foreign, 3)}); move them away"
    return Item(kind, path, name, size, datetime.fromtimestamp(last, UTC).isoformat(timespec="seconds"), obstacle)


def _cache_folder() -> list[Path]:
    """Return the folder of this machine's cache; none where there is no home directory."""
    with contextlib.suppress(RuntimeError):
        return [Path(os.path.realpath(settings.cache_folder()))]
    return []


def _table(items: Sequence[Item]) -> str:
    rows = []
    for item in items:
        place = clean(str(item.path)) + (f" ({clean(item.obstacle)})" if item.obstacle else "")
        words = [text.replace(" ", options.FIXED_SPACE) for text in (item.kind, format_bytes(item.size_bytes))]
        rows.append((clean(item.name), *words, item.last_used[:10], place))
    return table(("NAME", "WHAT", "SIZE", "USED ABOUT", "PATH"), rows, wrapping_width())


def _summary(items: Sequence[Item]) -> str:
    """Count items and their bytes: "2 record sets, 1 raw file, 3 GB"."""
    kinds = [item.kind for item in items]
    counts = [counted(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    return f"{', '.join(counts)}, {format_bytes(sum(item.size_bytes for item in items))}"
