"""The plan of `prepare` for each record set, and whether all of them will fit."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from recordzoo.base.program import command
from recordzoo.base.progress import format_bytes, format_seconds
from recordzoo.base.text import clean, name_first
from recordzoo.cli import output
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.custom.targets import Target
from recordzoo.errors import FolderError, RecordZooError, TermsError

if TYPE_CHECKING:
    from recordzoo.preparing import Options
    from recordzoo.preparing.outlook import Outlook

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


def look_ahead(
    wanted: Sequence[Target], options: "Options", *, measure: bool = False
) -> list[tuple[Target, "Outlook"]]:
    """Predict what `prepare` would do for each record set; `measure` also estimates the time, by a probe of the disk.

    Raises:
        FolderError: A tree has no classes.
    """
    from recordzoo.preparing import describe, locate

    outlooks = []
    for target in wanted:
        with explained(target):
            outlooks.append((target, describe(locate(target.recipe(), target.root, options), measure=measure)))
    return outlooks


def check_room(outlooks: Iterable["Outlook"], *, discard_raw: bool) -> None:
    """Check that all record sets will fit, one after another.

    A set that another process prepares, or whose preparation was interrupted, is not counted: its own preparation
    checks the room. Nor is a set whose size is not known.

    Raises:
        DiskSpaceError: They will not.
    """
    from recordzoo.publish.output import build_path
    from recordzoo.publish.space import check_space, volume

    kept: dict[int, int] = defaultdict(int)
    for outlook in outlooks:
        target = outlook.located.target
        needed, records = outlook.needed_bytes, outlook.records_bytes
        if outlook.state not in ("convert", "download") or needed is None or records is None:
            continue
        if build_path(target).exists():
            continue
        folder = target.parent
        check_space(folder, kept[volume(folder)] + needed)
        kept[volume(folder)] += records if discard_raw else needed


def show_plans(wanted: Sequence[Target], options: "Options", as_json: bool) -> None:
    """Print what `prepare` would do, and do nothing.

    Raises:
        OtherSourceError: An existing record set is not what was asked for.
    """
    from recordzoo.custom.making import check_made

    outlooks = look_ahead(wanted, options, measure=True)
    for target, outlook in outlooks:
        if outlook.state == "ready":
            check_made(target, outlook.located.target, was_ready=True, full=True)
    if as_json:
        plans = [
            {"name": target.label, **outlook.to_json(), "must_be_fetched_by_hand": outlook.obstacle is not None}
            for target, outlook in outlooks
        ]
        output.put_json({"dry_run": True, "plans": plans})
        return
    for target, outlook in outlooks:
        obstacle = f"; {needs(outlook.obstacle)}" if outlook.obstacle else ""
        output.put(clean(f"{target.label}: {_summary(outlook)}") + obstacle)
        for line in _details(outlook):
            output.put(wrapped(clean(f"  {line}"), wrapping_width()))


def needs(obstacle: RecordZooError) -> str:
    """Describe what the user must do before a record set can be prepared."""
    by_hand = "its files must be downloaded by hand"
    return f"{by_hand}, or need --accept-terms" if isinstance(obstacle, TermsError) else by_hand


def _summary(outlook: "Outlook") -> str:
    return _STATES["changed" if outlook.changes else outlook.state].format(
        changes=name_first(outlook.changes, _CHANGES_SHOWN),
        source=outlook.source,
        target=outlook.located.target,
        raw=_bytes(outlook.raw_bytes),
        peak=_bytes(outlook.peak_bytes),
    )


def _details(outlook: "Outlook") -> Iterator[str]:
    """Yield a line for each raw file, one for the room and one for the time; nothing where there is nothing to do."""
    if outlook.state in ("ready", "missing"):
        return
    for source in outlook.sources:
        text = _SOURCES[source["state"]].format(size=_bytes(source["bytes"]), **source)
        yield f"{source['name']}: {text}{' (not necessary)' if source['optional'] else ''}"
    free, needed = format_bytes(outlook.free_bytes), outlook.needed_bytes
    if needed is None:
        yield f"space: how much is needed is not known; {free} are free"
    else:
        short = needed - outlook.free_bytes
        lacking = f": {format_bytes(short)} too little" if short > 0 else ""
        yield f"space: about {format_bytes(needed)} needed, {free} free{lacking}"
    converting, downloading, size = "how long converting takes is not known", "", outlook.download_bytes
    if outlook.convert_seconds is not None and outlook.disk_bytes_per_second is not None:
        speed = format_bytes(outlook.disk_bytes_per_second)
        seconds = format_seconds(max(1, outlook.convert_seconds))
        converting = f"converting takes about {seconds} on one core, if the disk keeps the {speed}/s that it just wrote"
    if size is None:
        downloading = "; how long the download takes is not known"
    elif size:
        downloading = f"; downloading {format_bytes(size)} takes {format_seconds(size / _SLOW_NETWORK)} at 10 MB/s"
    yield f"time: {converting}{downloading}"


def _bytes(value: int | None) -> str:
    return "size not known" if value is None else format_bytes(value)


@contextlib.contextmanager
def explained(target: Target) -> Iterator[None]:
    """Add the option that helps to errors of a directory of images."""
    try:
        yield
    except FolderError as err:
        text = str(err)
        if target.kind in ("tree", "flat") and not target.root.exists():
            text = f"{target.label} does not exist, so its record set cannot be made."
        elif "classes" in err.details:
            text = f"{text.rstrip('. ')}. Remove these folders, or pass --allow-empty."
        if target.split_of:
            # in front, because the text may end with a command
            as_class = command("prepare", target.split_of, "--from", "classes")
            text = f"{target.label} is taken as a split (as a class: {as_class}). {text}"
        raise FolderError(text, **err.details) from err
