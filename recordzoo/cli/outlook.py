"""What `prepare` would do, said before it does it: for each record set, and whether all of it will fit."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo.aliases import JSON
from recordzoo.cli import output
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.custom.targets import Target
from recordzoo.errors import DownloadError, FolderError, RecordZooError, TermsError
from recordzoo.program import command
from recordzoo.progress import format_bytes, format_seconds
from recordzoo.text import clean

if TYPE_CHECKING:
    from recordzoo.preparing import Located, Options

_CHANGES_SHOWN = 3
_SLOW_NETWORK = 10_000_000

_STATES = {
    "missing": "there is no raw data, and nowhere to get it from",
    "ready": "ready in {target}; nothing to do",
    "changed": "ready in {target}, but raw files have changed since ({changes}); --refresh rebuilds it",
    "resume": "goes on with an interrupted preparation: {source} ({raw}) to {target}; peak of disk {peak}",
    "convert": "converts {source} ({raw}) to {target}; peak of disk {peak}",
    "download": "downloads and converts {source} ({raw}) to {target}; peak of disk {peak}",
}

_SOURCES = {
    "there": "{size}, there already: {path}",
    "download": "{size}, downloaded from {url}",
    "by hand": "{size}, to be downloaded by hand to {path}",
    "terms": "{size}, to be downloaded by hand to {path}, or with --accept-terms",
}


@dataclass(frozen=True, slots=True)
class Prospect:
    """A record set that was asked for, and what would happen to it.

    Attributes:
        target: Which.
        plan: See `recordzoo.preparing.outlook`.
        obstacle: The error that prevents it: raw files must be downloaded by hand, or need `--accept-terms`. None: it
            can be prepared.
    """

    target: Target
    plan: Mapping[str, JSON]
    obstacle: TermsError | DownloadError | None


def look_ahead(wanted: Sequence[Target], options: "Options", *, measure: bool = False) -> list[Prospect]:
    """Say of each record set what would happen to it. Writes nothing and fetches nothing.

    Args:
        wanted: The record sets.
        options: How they are prepared.
        measure: Also estimate how long it takes, by a probe of the disk.

    Raises:
        FolderError: A tree has no classes.
    """
    from recordzoo.preparing import describe, locate

    prospects = []
    for target in wanted:
        with explained(target):
            located = locate(target.recipe(), target.root, options)
            plan = describe(located, measure=measure)
        obstacle = _obstacle(located) if plan["state"] == "download" else None
        prospects.append(Prospect(target, plan, obstacle))
    return prospects


def _obstacle(located: "Located") -> TermsError | DownloadError | None:
    from recordzoo.preparing.raw import check_addresses

    try:
        check_addresses(located.recipe, located.root, located.options)
    except (TermsError, DownloadError) as err:
        return err
    return None


def check_room(prospects: Sequence[Prospect], *, discard_raw: bool) -> None:
    """Ask whether all of it will fit, one after another.

    One that was begun, by whomever, is not counted: only it knows how much of it is there, and it asks for itself.
    Nor is one whose size is not known.

    Raises:
        DiskSpaceError: It will not.
    """
    from recordzoo.preparing.raw import there_bytes
    from recordzoo.publish.space import check_space, volume

    kept: dict[int, int] = defaultdict(int)
    for prospect in prospects:
        plan = prospect.plan
        target = Path(plan["target"])
        if plan["state"] not in ("convert", "download") or plan["peak_bytes"] is None or _is_begun(target):
            continue
        folder = target.parent
        paths = [remote.path(prospect.target.root) for remote in prospect.target.recipe().raw_files]
        there = sum(there_bytes(path) for path in paths if not path.exists())
        download = max(0, plan["download_bytes"] - there)
        records = plan["peak_bytes"] - plan["raw_bytes"]
        check_space(folder, kept[volume(folder)] + download + records)
        kept[volume(folder)] += records + (0 if discard_raw else download)


def _is_begun(target: Path) -> bool:
    """Whether a process prepares it, or did and was interrupted."""
    from recordzoo.publish.found import find_builds

    return target.with_name(f".{target.name}.lock").exists() or bool(find_builds(target))


def show_plans(wanted: Sequence[Target], options: "Options", as_json: bool) -> None:
    """Print what `prepare` would do; do nothing of it.

    Raises:
        OtherSourceError: A record set that is there is not what was asked for.
    """
    from recordzoo.custom.making import check_made

    prospects = look_ahead(wanted, options, measure=True)
    for prospect in prospects:
        if prospect.plan["state"] == "ready":
            check_made(prospect.target, Path(prospect.plan["target"]), was_ready=True, full=True)
    plans = [{"name": p.target.label, **p.plan, "must_be_fetched_by_hand": p.obstacle is not None} for p in prospects]
    if as_json:
        output.put_json({"dry_run": True, "plans": plans})
        return
    for plan, prospect in zip(plans, prospects, strict=True):
        output.put(plan_line(plan) + (f"; {needs(prospect.obstacle)}" if prospect.obstacle else ""))
        for line in _details(plan):
            output.put(wrapped(clean(f"  {line}"), wrapping_width()))


def needs(obstacle: RecordZooError) -> str:
    """Say what people must do before a record set can be prepared."""
    by_hand = "its files must be downloaded by hand"
    return f"{by_hand}, or need --accept-terms" if isinstance(obstacle, TermsError) else by_hand


def plan_line(plan: Mapping[str, JSON]) -> str:
    """Write a plan as one line: what, how large, where to, and the peak of disk."""
    changes = ", ".join(plan["changes"][:_CHANGES_SHOWN])
    more = plan["num_changes"] - _CHANGES_SHOWN
    text = _STATES["changed" if changes else plan["state"]].format(
        changes=changes + (f" and {more:,} more" if more > 0 else ""),
        source=plan["source"],
        target=plan["target"],
        raw=_bytes(plan["raw_bytes"]),
        peak=_bytes(plan["peak_bytes"]),
    )
    return clean(f"{plan['name']}: {text}")


def _details(plan: Mapping[str, JSON]) -> Iterator[str]:
    """Yield a line for each raw file, one for the room and one for the time; nothing where nothing is to do."""
    if plan["state"] in ("ready", "missing"):
        return
    for source in plan["sources"]:
        text = _SOURCES[source["state"]].format(size=_bytes(source["bytes"]), **source)
        yield f"{source['name']}: {text}{' (not necessary)' if source['optional'] else ''}"
    free = format_bytes(plan["free_bytes"])
    if plan["needed_bytes"] is None:
        yield f"space: how much is needed is not known; {free} are free"
    else:
        short = plan["needed_bytes"] - plan["free_bytes"]
        lacking = f": {format_bytes(short)} too little" if short > 0 else ""
        yield f"space: about {format_bytes(plan['needed_bytes'])} needed, {free} free{lacking}"
    yield f"time: {_converting(plan)}{_downloading(plan)}"


def _converting(plan: Mapping[str, JSON]) -> str:
    if plan["convert_seconds"] is None:
        return "how long converting takes is not known"
    speed = format_bytes(plan["disk_bytes_per_second"])
    seconds = format_seconds(max(1, plan["convert_seconds"]))
    return f"converting takes about {seconds} on one core, if the disk keeps the {speed}/s that it just wrote"


def _downloading(plan: Mapping[str, JSON]) -> str:
    size = plan["download_bytes"]
    if size == 0:
        return ""
    if size is None:
        return "; how long the download takes is not known"
    return f"; downloading {format_bytes(size)} takes {format_seconds(size / _SLOW_NETWORK)} at 10 MB/s"


def _bytes(value: int | None) -> str:
    return "size not known" if value is None else format_bytes(value)


@contextlib.contextmanager
def explained(target: Target) -> Iterator[None]:
    """Add the option that helps to the errors of a directory of images; a context manager.

    Raises:
        FolderError: The same error, with the option in its text.
    """
    try:
        yield
    except FolderError as err:
        text = str(err)
        if target.kind in ("tree", "flat") and not target.root.exists():
            text = f"{target.label} does not exist, so its record set cannot be made."
        elif "classes" in err.details:
            text = f"{text.rstrip('. ')}. Remove these folders, or pass --allow-empty."
        if target.split_of:
            # First, because the text may end with a command.
            as_class = command("prepare", target.split_of, "--from", "classes")
            text = f"{target.label} is taken as a split (as a class: {as_class}). {text}"
        raise FolderError(text, **err.details) from err
