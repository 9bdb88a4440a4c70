"""`recordzoo cache`: list what recordzoo wrote to the disk, and delete some of it."""

import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from recordzoo.base import durable, roots
from recordzoo.base.meant import did_you_mean
from recordzoo.base.progress import format_bytes
from recordzoo.base.text import clean, name_first
from recordzoo.base.types import JSON
from recordzoo.cli import output
from recordzoo.cli.exits import Exit
from recordzoo.cli.options import DryRun, Json, data_argument, directory_option, flag, option, parse_bytes
from recordzoo.cli.tables import FIXED_SPACE, table, wrapping_width
from recordzoo.cli.written import (
    LEFTOVERS,
    Item,
    Kind,
    cache_folders,
    find_items,
    freed_by,
    item_at,
    num_names,
    size_of,
)
from recordzoo.custom.nearby import nothing_there
from recordzoo.errors import ArgumentError, NotPreparedError, RecordZooError
from recordzoo.net.cache import Cache
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.downloads import remove_marked
from recordzoo.publish.build import kept_from_others
from recordzoo.publish.output import Output
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.remote_directory import cached_addresses, remove_cached

_AGE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[hdw])", re.IGNORECASE)
_SECONDS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}

Yes = Annotated[bool, flag("--yes", "Do not ask; needed where there is no terminal to ask on.", "-y")]

Roots = Annotated[
    list[Path] | None,
    directory_option(
        "Look in this directory and two levels below it; may be repeated. Default: where sets were prepared, and the "
        "cache of sets at URLs.",
        "--root",
    ),
]


def ls(root: Roots = None, as_json: Json = False) -> int:
    """List what recordzoo wrote: record sets, raw files, cached sets of URLs, and what interrupted work left.

    "USED ABOUT" is the later of the times of the last reading and writing. Many systems note reading once a day, or
    not at all. Raw files are those that recordzoo downloaded; those that came by other means are not listed.
    """
    places = _places(root)
    items = find_items(places)
    if as_json:
        of_kinds = [(kind, [item for item in items if item.kind is kind]) for kind in Kind]
        kinds = [{"kind": kind.value, "count": len(of), "size_bytes": size_of(of)} for kind, of in of_kinds]
        texts = [str(place.absolute()) for place in places]
        found = list(map(_document, items))
        output.put_json({"roots": texts, "items": found, "kinds": kinds, "size_bytes": size_of(items)})
    elif items:
        output.put(_table(items))
        sums = [f"{_count(of)}, {format_bytes(size_of(of))}" for of in _groups(items)]
        output.say("; ".join(sums if len(sums) == 1 else [*sums, f"{format_bytes(size_of(items))} in all"]))
    else:
        output.say(f"Nothing that recordzoo wrote was found in {_named(places)}.")
    return Exit.OK


def rm(
    names: Annotated[
        list[str],
        data_argument(
            "NAME|PATH|URL",
            "Record sets, by their name in ROOT or their path; cached sets, by their address; or paths of other "
            "things that `cache ls` lists.",
        ),
    ],
    root: Roots = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Delete record sets, or other things that recordzoo wrote.

    What is being prepared, downloaded or fetched is not deleted, and no set that holds files of yours.
    """
    items = list(dict.fromkeys(item for name in names for item in _named_items(name, root)))
    blocked = [(item, item.obstacle) for item in items if item.obstacle]
    wanted = [item for item in items if not item.obstacle]
    code = _delete(wanted, blocked, dry_run=dry_run, yes=yes, as_json=as_json)
    return Exit.FAILED if blocked else code


def prune(
    sets: Annotated[bool, flag("--sets", "Choose among record sets.")] = False,
    raw: Annotated[bool, flag("--raw", "Choose among raw files whose record sets are prepared.")] = False,
    remote: Annotated[bool, flag("--remote", "Choose among the cached files of record sets at URLs.")] = False,
    builds: Annotated[bool, flag("--builds", "Choose among what interrupted builds and downloads left.")] = False,
    older_than: Annotated[str | None, option("AGE", "Only what was last used so long ago: 12h, 30d, 4w.")] = None,
    keep_size: Annotated[
        str | None, option("SIZE", "Keep what was used last, up to this size in all; delete the rest: 100GB.")
    ] = None,
    root: Roots = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Delete old or unneeded items.

    Without --sets, --raw, --remote and --builds, record sets and cached sets are chosen among. A cached set is fetched
    again when it is read; a reader that has it open goes on.
    Record sets that could not be made again are left: their raw data is gone, and cannot be downloaded by anybody.
    `cache rm` deletes them.
    """
    chosen, left = choose(
        find_items(_places(root)),
        time.time(),
        sets=sets,
        raw=raw,
        remote=remote,
        builds=builds,
        older_than_s=None if older_than is None else _parse_age("--older-than", older_than),
        keep_bytes=None if keep_size is None else parse_bytes("--keep-size", keep_size),
    )
    return _delete(chosen, left, dry_run=dry_run, yes=yes, as_json=as_json)


def _parse_age(option: str, text: str) -> float:
    """Read ``30d``, ``12h`` or ``4w`` as seconds."""
    match = _AGE.fullmatch(text.strip())
    if not match:
        raise ArgumentError(f"{option} {text!r} is no time: give a number with h (hours), d (days) or w (weeks): 30d.")
    return float(match["number"]) * _SECONDS[match["unit"].lower()]


def choose(
    items: Sequence[Item],
    now: float,
    *,
    sets: bool = False,
    raw: bool = False,
    remote: bool = False,
    builds: bool = False,
    older_than_s: float | None = None,
    keep_bytes: int | None = None,
) -> tuple[list[Item], list[tuple[Item, str]]]:
    """Choose the items that `prune` deletes.

    Returns:
        The items to delete, the least recently used first; and the items that are kept, with the reasons.

    Raises:
        ArgumentError: The options choose nothing, or all record sets.
    """
    is_limited = older_than_s is not None or keep_bytes is not None
    if not (sets or raw or remote or builds or is_limited):
        raise ArgumentError("Say what to delete: --builds, --raw, --remote, --older-than 30d or --keep-size 100GB.")
    if sets and not is_limited:
        raise ArgumentError("--sets alone would delete all record sets; add --older-than 30d or --keep-size 100GB.")
    named = ((sets, [Kind.SET]), (raw, [Kind.RAW]), (remote, [Kind.CACHED]), (builds, LEFTOVERS))
    kinds = {kind for is_named, of in named if is_named for kind in of} or {Kind.SET, Kind.CACHED}
    wanted = sorted((item for item in items if item.kind in kinds), key=lambda item: item.last_used)
    remaining_bytes, names = size_of(wanted), num_names(wanted)
    chosen, left = [], []
    for item in wanted:
        if older_than_s is not None and now - item.last_used < older_than_s:
            continue
        if keep_bytes is not None and remaining_bytes <= keep_bytes:
            break
        if reason := item.obstacle or item.kept:
            left.append((item, reason))
        else:
            chosen.append(item)
            remaining_bytes -= item.size_bytes
            for file in item.shared:
                names[file] -= 1
                remaining_bytes += file.size_bytes if names[file] else 0
    return chosen, left


def remove(item: Item) -> str:
    """Delete an item unless it has changed; return the reason why it is left, "" if it is deleted.

    A record set's manifest is deleted first: a kill in the middle leaves nothing that looks complete.
    """
    try:
        now = item_at(item.path)  # the user may have answered the question minutes later
        if now.kind != item.kind:
            return f"it is a {now.kind} now"
        if now.obstacle:
            return now.obstacle
        if now.kind in (Kind.SET, Kind.REMAINS):
            with kept_from_others(Output(now.path)) as is_free:
                if not is_free:
                    return "another process works on it"
                _remove_set(now.path)
        elif now.kind is Kind.CACHED:
            if not remove_cached(Cache(now.path.parent), now.path.name):
                return "some of its files are in use"
        elif now.kind is Kind.BUILD:
            shutil.rmtree(now.path)
        elif now.kind is Kind.RAW:
            remove_marked(now.path)
        else:
            durable.remove(now.path)
        durable.sync_directory(now.path.parent)
    except ArgumentError:
        return "" if not os.path.lexists(item.path) else "it is not what it was"
    except OSError as err:
        return err.strerror or str(err)
    except RecordZooError as err:
        return str(err)
    return ""


def _remove_set(path: Path) -> None:
    """Delete a record set's files, its manifest first and its shards last, and then the directory."""
    for name in sorted(os.listdir(path), key=lambda name: (name != MANIFEST_NAME, name.startswith("shard-"), name)):
        (path / name).unlink()
        if name == MANIFEST_NAME:
            durable.sync_directory(path)
    path.rmdir()


def _delete(
    chosen: Sequence[Item], left: Sequence[tuple[Item, str]], *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Show the items, ask, and delete them."""
    done: list[Item] = []
    failed: list[tuple[Item, str]] = []
    if not as_json:
        for item, reason in left:
            output.say(f"left: {clean(str(item.path))}: {clean(reason)}.")
        if chosen:
            output.put(_table(chosen))
        else:
            output.say("Nothing is to be deleted.")
    if dry_run:
        done = list(chosen)
    elif chosen:
        for item in chosen:
            if item.kept and item.kind is Kind.SET:
                output.say(f"warning: {clean(str(item.path))} could not be made again: {clean(item.kept)}.")
        if not confirm(f"Delete {_counts(chosen)} ({format_bytes(freed_by(chosen))})?", yes=yes):
            output.say("Nothing is deleted.")
            return Exit.FAILED
        for item in chosen:
            if reason := remove(item):
                failed.append((item, reason))
            else:
                done.append(item)
    if as_json:
        texts = [{**_document(item), "reason": reason} for item, reason in (*left, *failed)]
        deleted = list(map(_document, done))
        output.put_json({"dry_run": dry_run, "deleted": deleted, "left": texts, "size_bytes": freed_by(done)})
        return Exit.FAILED if failed else Exit.OK
    for item, reason in failed:
        output.say(f"error: {clean(str(item.path))} is not deleted: {clean(reason)}.")
    if done:
        output.say(f"{'Would delete' if dry_run else 'Deleted'} {_counts(done)}, {format_bytes(freed_by(done))}.")
    return Exit.FAILED if failed else Exit.OK


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on the terminal, unless ``--yes`` was given; return whether the answer is yes.

    Raises:
        ArgumentError: There is no terminal to ask on.
    """
    if yes:
        return True
    streams = (sys.stdin, sys.stderr)  # None where the shell closed one
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise ArgumentError(f"{question} There is no terminal to ask on: pass --yes, or --dry-run to only look.")
    output.ask(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _named_items(name: str, folders: Sequence[Path] | None) -> list[Item]:
    """Find the item at a path or an address, or the record set with a name in the roots."""
    if is_url(name):
        return [_cached_at(str(Url.parse(name)))]
    path = Path(name)
    beside = path.with_name(f"{path.name}.records")
    if path.exists() or path.is_symlink():
        return [item_at(beside if path.is_dir() and not name.endswith(".records") and beside.is_dir() else path)]
    if beside.is_dir():
        return [item_at(beside)]
    if len(path.parts) > 1:
        raise nothing_there(name)
    places = _places(folders)
    sets = [item for item in find_items(places) if item.kind is Kind.SET]
    found = [item for item in sets if item.name == name]
    if not found:
        hint = did_you_mean(name, [item.name for item in sets])
        raise NotPreparedError(f"There is no record set {name!r} in {_named(places)}.{hint} See: recordzoo cache ls")
    if len(found) > 1:
        raise ArgumentError(f"{name!r} are several record sets; name one: {', '.join(str(i.path) for i in found)}.")
    return found


def _cached_at(address: str) -> Item:
    cache = Cache.default()
    known = cached_addresses(cache)
    if address not in known:
        hint = did_you_mean(address, known)
        raise NotPreparedError(f"{address} is not in the cache {cache.folder}.{hint} See: recordzoo cache ls")
    return item_at(cache.folder / known[address])


def _places(folders: Sequence[Path] | None) -> list[Path]:
    """Return the directories to search: the given ones; by default those of earlier preparations and the cache."""
    for folder in folders or ():
        if not folder.is_dir():
            raise NotPreparedError(f"--root {folder} is not there.", path=str(folder))
    return list(folders or ()) or [*(roots.known() or [Path()]), *cache_folders()]


def _named(places: Sequence[Path]) -> str:
    more = " directories" if len(places) > 3 else ""
    return name_first([str(place.absolute()) for place in places], 3) + more


def _table(items: Sequence[Item]) -> str:
    rows = [
        (
            clean(item.name),
            item.kind.value.replace(" ", FIXED_SPACE),
            format_bytes(item.size_bytes).replace(" ", FIXED_SPACE),
            datetime.fromtimestamp(item.last_used, UTC).strftime("%Y-%m-%d"),
            clean(str(item.path)) + (f" ({item.used_by} works on it)" if item.used_by else ""),
        )
        for item in items
    ]
    return table(("NAME", "WHAT", "SIZE", "USED ABOUT", "PATH"), rows, wrapping_width())


def _groups(items: Sequence[Item]) -> list[list[Item]]:
    """Group items into record sets, raw files, cached sets and leftovers."""
    groups = [[kind] for kind in Kind if kind not in LEFTOVERS]
    found = [[item for item in items if item.kind in kinds] for kinds in (*groups, LEFTOVERS)]
    return [group for group in found if group]


def _count(group: Sequence[Item]) -> str:
    name = "leftover" if group[0].kind in LEFTOVERS else group[0].kind.value
    return f"{len(group):,} {name}{'' if len(group) == 1 else 's'}"


def _counts(items: Sequence[Item]) -> str:
    return ", ".join(map(_count, _groups(items)))


def _document(item: Item) -> dict[str, JSON]:
    return {
        "kind": item.kind.value,
        "name": item.name,
        "path": str(item.path),
        "size_bytes": item.size_bytes,
        "last_used": datetime.fromtimestamp(item.last_used, UTC).isoformat(timespec="seconds"),
        "used_by": item.used_by or None,
        "kept": item.kept or None,
        "foreign": list(item.foreign),
    }
