"""`prepare --dry-run`: what would be done, from which files, how much room it takes, and about how long."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo.aliases import JSON
from recordzoo.cli import output
from recordzoo.cli.preflight import look_ahead
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.custom.targets import Target
from recordzoo.errors import RecordZooError, TermsError
from recordzoo.progress import format_bytes, format_seconds
from recordzoo.text import clean

if TYPE_CHECKING:
    from recordzoo.preparing import Options

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
