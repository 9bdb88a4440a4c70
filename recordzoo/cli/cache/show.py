"""The commands of `recordzoo cache`: what they print and ask."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from recordzoo import roots
from recordzoo.aliases import JSON
from recordzoo.cli import output
from recordzoo.cli.cache.choose import Rules, choose
from recordzoo.cli.cache.find import find_items, item_at
from recordzoo.cli.cache.item import LEFTOVERS, Item, Kind
from recordzoo.cli.cache.remove import remove
from recordzoo.cli.confirm import confirm
from recordzoo.cli.exits import Exit
from recordzoo.cli.tables import FIXED_SPACE, table, wrapping_width
from recordzoo.custom.nearby import nothing_there
from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.meant import did_you_mean
from recordzoo.progress import format_bytes
from recordzoo.text import clean

_NOTHING = "Nothing that recordzoo wrote was found in {}."


def list_items(folders: Sequence[Path] | None, *, as_json: bool) -> int:
    """Print one line for each thing that recordzoo wrote."""
    places = _places(folders)
    items = find_items(places)
    if as_json:
        total = sum(item.size_bytes for item in items)
        output.put_json({"roots": _texts(places), "items": list(map(_document, items)), "size_bytes": total})
    elif items:
        output.put(_table(items))
        output.say(f"{_count(items)}, {_size(items)}")
    else:
        output.say(_NOTHING.format(_named(places)))
    return Exit.OK


def show_sizes(folders: Sequence[Path] | None, *, as_json: bool) -> int:
    """Print how much recordzoo wrote, by kind."""
    places = _places(folders)
    items = find_items(places)
    kinds = [(kind, [item for item in items if item.kind is kind]) for kind in Kind]
    if as_json:
        by_kind = [
            {"kind": kind.value, "count": len(found), "size_bytes": sum(item.size_bytes for item in found)}
            for kind, found in kinds
        ]
        total = sum(item.size_bytes for item in items)
        output.put_json({"roots": _texts(places), "kinds": by_kind, "size_bytes": total})
        return Exit.OK
    rows = [(kind.value, f"{len(found):,}", _size(found)) for kind, found in kinds if found]
    output.put(table(("WHAT", "COUNT", "SIZE"), [*rows, ("in all", f"{len(items):,}", _size(items))], wrapping_width()))
    return Exit.OK


def remove_named(
    names: Sequence[str], folders: Sequence[Path] | None, *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    """Delete what was named; returns the exit code."""
    items = list(dict.fromkeys(item for name in names for item in _named_items(name, folders)))
    blocked = [(item, item.obstacle) for item in items if item.obstacle]
    wanted = [item for item in items if not item.obstacle]
    code = _delete(wanted, blocked, dry_run=dry_run, yes=yes, as_json=as_json)
    return Exit.FAILED if blocked else code


def prune(folders: Sequence[Path] | None, rules: Rules, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Delete what the rules choose; returns the exit code."""
    rules.check()
    places = _places(folders)
    chosen, left = choose(find_items(places), rules, time.time())
    return _delete(chosen, left, dry_run=dry_run, yes=yes, as_json=as_json)


def _delete(
    chosen: Sequence[Item], left: Sequence[tuple[Item, str]], *, dry_run: bool, yes: bool, as_json: bool
) -> int:
    if not as_json:
        for item, reason in left:
            output.say(f"left: {clean(str(item.path))}: {clean(reason)}.")
    if not chosen:
        if not as_json:
            output.say("Nothing is to be deleted.")
        return _report([], left, dry_run=dry_run, as_json=as_json)
    if not as_json:
        output.put(_table(chosen))
    if dry_run:
        return _report(chosen, left, dry_run=True, as_json=as_json)
    for item in chosen:
        if item.kept and item.kind is Kind.SET:
            output.say(f"warning: {clean(str(item.path))} could not be made again: {clean(item.kept)}.")
    if not confirm(f"Delete {_count(chosen)} ({_size(chosen)})?", yes=yes):
        output.say("Nothing is deleted.")
        return Exit.FAILED
    outcomes = [(item, remove(item)) for item in chosen]
    failed = [(item, reason) for item, reason in outcomes if reason]
    if not as_json:
        for item, reason in failed:
            output.say(f"error: {clean(str(item.path))} is not deleted: {clean(reason)}.")
    done = [item for item, reason in outcomes if not reason]
    _report(done, [*left, *failed], dry_run=False, as_json=as_json)
    return Exit.FAILED if failed else Exit.OK


def _report(done: Sequence[Item], left: Sequence[tuple[Item, str]], *, dry_run: bool, as_json: bool) -> int:
    if as_json:
        output.put_json(
            {
                "dry_run": dry_run,
                "deleted": list(map(_document, done)),
                "left": [{**_document(item), "reason": reason} for item, reason in left],
                "size_bytes": sum(item.size_bytes for item in done),
            }
        )
    elif done:
        output.say(f"{'Would delete' if dry_run else 'Deleted'} {_count(done)}, {_size(done)}.")
    return Exit.OK


def _named_items(name: str, folders: Sequence[Path] | None) -> list[Item]:
    """Find what a path means; or the record set of a name, in the roots."""
    path = Path(name)
    if path.exists() or path.is_symlink():
        beside = path.with_name(f"{path.name}.records")
        return [item_at(beside if path.is_dir() and not name.endswith(".records") and beside.is_dir() else path)]
    if path.with_name(f"{path.name}.records").is_dir():
        return [item_at(path.with_name(f"{path.name}.records"))]
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


def _places(folders: Sequence[Path] | None) -> list[Path]:
    """Return where to look: what was named, or where record sets were prepared, or here."""
    for folder in folders or ():
        if not folder.is_dir():
            raise NotPreparedError(f"--root {folder} is not there.", path=str(folder))
    return list(folders or ()) or roots.known() or [Path()]


def _named(places: Sequence[Path]) -> str:
    names = [str(place.absolute()) for place in places]
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more directories" if len(names) > 3 else "")


def _table(items: Sequence[Item]) -> str:
    rows = [
        (
            _shown(item.name),
            item.kind.value.replace(" ", FIXED_SPACE),
            format_bytes(item.size_bytes).replace(" ", FIXED_SPACE),
            datetime.fromtimestamp(item.last_used, UTC).strftime("%Y-%m-%d"),
            _shown(str(item.path)) + (f" ({item.used_by} works on it)" if item.used_by else ""),
        )
        for item in items
    ]
    return table(("NAME", "WHAT", "SIZE", "USED ABOUT", "PATH"), rows, wrapping_width())


def _shown(text: str) -> str:
    return clean(text)


def _count(items: Sequence[Item]) -> str:
    counts = [(sum(item.kind is kind for item in items), kind.value) for kind in (Kind.SET, Kind.RAW)]
    counts.append((sum(item.kind in LEFTOVERS for item in items), "leftover"))
    return ", ".join(f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts if count)


def _size(items: Sequence[Item]) -> str:
    return format_bytes(sum(item.size_bytes for item in items))


def _texts(places: Sequence[Path]) -> list[str]:
    return [str(place.absolute()) for place in places]


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
