"""Decide what `prune` deletes, from what was found and the options."""

from collections.abc import Sequence
from dataclasses import dataclass

from recordzoo.cli.cache.item import LEFTOVERS, Item, Kind
from recordzoo.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Rules:
    """The options of `prune`.

    Attributes:
        sets: Choose among record sets.
        raw: Choose among raw files.
        builds: Choose among what interrupted work left.
        older_than_s: Only what was last used so many seconds ago.
        keep_bytes: Keep the most recently used, up to this size in all; delete the rest.
    """

    sets: bool = False
    raw: bool = False
    builds: bool = False
    older_than_s: float | None = None
    keep_bytes: int | None = None

    def check(self) -> None:
        """Refuse rules that choose nothing, or all record sets.

        Raises:
            ArgumentError: They do.
        """
        is_limited = self.older_than_s is not None or self.keep_bytes is not None
        if not (self.sets or self.raw or self.builds or is_limited):
            raise ArgumentError("Say what to delete: --builds, --raw, --older-than 30d or --keep-size 100GB.")
        if self.sets and not is_limited:
            raise ArgumentError("--sets alone would delete all record sets; add --older-than 30d or --keep-size 100GB.")

    @property
    def kinds(self) -> set[Kind]:
        """What is chosen among: record sets, unless other things are named."""
        chosen = {*([Kind.SET] if self.sets else ()), *([Kind.RAW] if self.raw else ())}
        chosen.update(LEFTOVERS if self.builds else ())
        return chosen or {Kind.SET}


def choose(items: Sequence[Item], rules: Rules, now: float) -> tuple[list[Item], list[tuple[Item, str]]]:
    """Choose what is deleted.

    Args:
        items: All that there is.
        rules: The options.
        now: The time, in seconds since 1970.

    Returns:
        What is deleted, the least recently used first; and what else the rules would have chosen, with the reason why
        it is left.
    """
    wanted = sorted((item for item in items if item.kind in rules.kinds), key=lambda item: item.last_used)
    over = sum(item.size_bytes for item in wanted) - (rules.keep_bytes or 0)
    chosen, left = [], []
    for item in wanted:
        if rules.older_than_s is not None and now - item.last_used < rules.older_than_s:
            continue
        if rules.keep_bytes is not None and over <= 0:
            break
        reason = item.obstacle or item.kept
        if reason:
            left.append((item, reason))
        else:
            chosen.append(item)
            over -= item.size_bytes
    return chosen, left
