"""`prepare`: names and paths become recipes, and the library does the rest."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recordzoo.bars import clean
from recordzoo.cli import output
from recordzoo.cli.progress import make_progress
from recordzoo.cli.targets import Target, resolve
from recordzoo.errors import ArgumentError
from recordzoo.progress import format_bytes, format_seconds


# Any: the options are checked by the library's own TypedDict when they get there.
def prepare_all(
    names: Sequence[str], root: Path, split: str | None, options: Mapping[str, Any], *, dry_run: bool, as_json: bool
) -> None:
    """Prepare every record set that the names mean, one after another; the first error ends it."""
    wanted = [target for name in names for target in resolve(name, root, split)]
    if options["records_dir"] is not None and len(wanted) > 1:
        sets = ", ".join(target.label for target in wanted)
        raise ArgumentError(f"--records-dir names one record set, but {len(wanted)} are asked for: {sets}.")
    if dry_run:
        _show_plans(wanted, options, as_json)
        return
    done = [_prepare(target, options, as_json) for target in wanted]
    if as_json:
        output.put_json({"record_sets": done})


def _prepare(target: Target, options: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    from recordzoo.prepare import ensure, is_record_set
    from recordzoo.records.reader import RecordReader

    recipe = target.recipe()
    was_ready = is_record_set(options["records_dir"] or recipe.target(target.root)) and not options["refresh"]
    began = time.monotonic()
    path = ensure(recipe, target.root, download=True, progress=make_progress(), **options)
    elapsed_s = time.monotonic() - began
    records = len(RecordReader(path))
    how = "" if was_ready else f", made in {format_seconds(elapsed_s)}"
    output.say(f"{target.label}: ready, {records:,} records in {clean(str(path))}{how}")
    return {
        "name": target.label,
        "path": str(path),
        "records": records,
        "was_ready": was_ready,
        "elapsed_s": round(elapsed_s, 3),
    }


def _show_plans(wanted: Sequence[Target], options: Mapping[str, Any], as_json: bool) -> None:
    from recordzoo.prepare import describe

    plans = [{"name": t.label, **describe(t.recipe(), t.root, download=True, **options)} for t in wanted]
    if as_json:
        output.put_json({"dry_run": True, "plans": plans})
        return
    for plan in plans:
        output.put(plan_line(plan))


_STATES = {
    "missing": "there is no raw data, and nowhere to get it from",
    "ready": "ready in {target}; nothing to do",
    "resume": "goes on with an interrupted preparation: {source} ({raw}) to {target}; peak of disk {peak}",
    "convert": "converts {source} ({raw}) to {target}; peak of disk {peak}",
    "download": "downloads and converts {source} ({raw}) to {target}; peak of disk {peak}",
}


# Any: JSON values.
def plan_line(plan: Mapping[str, Any]) -> str:
    """Write a plan as one line: what, how large, where to, and the peak of disk."""
    text = _STATES[plan["state"]].format(
        source=plan["source"],
        target=plan["target"],
        raw=_bytes(plan["raw_bytes"]),
        peak=_bytes(plan["peak_bytes"]),
    )
    return clean(f"{plan['name']}: {text}")


def _bytes(value: int | None) -> str:
    return "size not known" if value is None else format_bytes(value)
