"""Check all record sets before work on the first one starts."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo.aliases import JSON
from recordzoo.cli.set_check import explained
from recordzoo.custom.targets import Target
from recordzoo.errors import DownloadError, TermsError

if TYPE_CHECKING:
    from recordzoo.preparing import Located, Options


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
