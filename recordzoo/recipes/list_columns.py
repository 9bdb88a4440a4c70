"""The roles of a table's columns: `Columns`, as named by the user, and their `Places`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo.base.addresses import shown
from recordzoo.base.meant import did_you_mean
from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.recipes.list_table import PATH_COLUMNS, Table

LABEL_COLUMNS = ("label", "class", "target", "category")
"""Usual names of the column of labels."""

TARGET_KINDS = ("class", "int", "float", "multilabel", "text")
"""Kinds of targets."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that the user named. Other columns are found by their usual names.

    Attributes:
        image: The column of paths.
        targets: Columns with their kinds; None: class or float, by the values. The first is the default target.
        split: The column of splits.
        name: The column of the records' names. Default: the paths.
    """

    image: str | None = None
    targets: tuple[tuple[str, str | None], ...] = ()
    split: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Check kinds and columns.

        Raises:
            ArgumentError: A kind does not exist, a column is named twice, or an address is given for one.
        """
        for given in (self.image, self.split, self.name, *(f"{column}:{kind}" for column, kind in self.targets)):
            if given is not None and "://" in given:
                raise ArgumentError(f"{shown(given)} is an address, and no column's name.")
        for column, kind in self.targets:
            if kind is not None and kind not in TARGET_KINDS:
                raise ArgumentError(
                    f"Unknown kind {kind!r} of target {column!r} (--target {column}:{kind}). Valid kinds are "
                    f"{', '.join(TARGET_KINDS)}.{did_you_mean(str(kind), TARGET_KINDS)}"
                )
        named = [each for each in (self.image, *dict(self.targets), self.split, self.name) if each is not None]
        twice = next((each for each in named if named.count(each) > 1), None)
        if twice is not None:
            raise ArgumentError(f"Column {twice!r} is named twice: as image, target, split or name.")

    # Any: checked here.
    @classmethod
    def of(cls, image: str | None, targets: Any, split: str | None, name: str | None) -> "Columns":
        """Return the columns in the arguments of `prepare`.

        Raises:
            ArgumentError: `targets` is no dict of kinds; or as the constructor.
        """
        if targets is not None and not isinstance(targets, Mapping):
            raise ArgumentError(
                f"Argument targets is {targets!r}; it must be a dict of columns and kinds, such as "
                "{'breed': 'class', 'age': 'float'}."
            )
        return cls(image, tuple((targets or {}).items()), split, name)

    # Any: JSON, maybe from an untrusted source.
    @classmethod
    def from_json(cls, document: Any) -> "Columns":
        """Return the columns in a record set's metadata; the usual ones if there are none, or invalid ones."""
        try:
            given = dict(document)
            return cls(**{**given, "targets": tuple((name, kind) for name, kind in given.get("targets", ()))})
        except (ArgumentError, TypeError, ValueError):
            return cls()

    def to_json(self) -> JSON:
        """Return the value for a record set's metadata; None if no column was named."""
        if self == USUAL:
            return None
        targets: list[JSON] = [[name, kind] for name, kind in self.targets]
        return {"image": self.image, "targets": targets, "split": self.split, "name": self.name}

    def words(self) -> list[str]:
        """Return the command line's options that name these columns."""
        named = [("--image", self.image), ("--split-column", self.split), ("--name-column", self.name)]
        named += [("--target", name if kind is None else f"{name}:{kind}") for name, kind in self.targets]
        return [word for option, value in named if value is not None for word in (option, value)]


USUAL = Columns()
"""All columns are found by their usual names."""


@dataclass(frozen=True, slots=True)
class Places:
    """The numbers of the columns, by role.

    Attributes:
        image: The column of paths.
        targets: Those of targets, with their kinds.
        split: The column of splits, if there is one.
        name: The column of names, if the user named one.
        is_named: The user named the targets.
    """

    image: int
    targets: Mapping[int, str | None]
    split: int | None
    name: int | None
    is_named: bool

    @classmethod
    def find(cls, path: Path, table: Table, asked: Columns) -> "Places":
        """Find the columns that the user named, and the others by their usual names.

        Raises:
            ArgumentError: There is no column that was named.
            SourceError: There is none with a usual name.
        """
        known = [name.lower() for name in table.header]

        def named(name: str | None, option: str) -> int | None:
            if name is not None and name not in table.header:
                raise ArgumentError(
                    f"{path} has no column {name!r} ({option}); it has {_shown(table.header)}."
                    f"{did_you_mean(name, table.header)}"
                )
            return None if name is None else table.header.index(name)

        def usual(names: Sequence[str]) -> int | None:
            return next((known.index(name) for name in names if name in known), None)

        image, name = named(asked.image, "--image"), named(asked.name, "--name-column")
        image = usual(PATH_COLUMNS) if image is None else image
        split = named(asked.split, "--split-column")
        split = usual(["split"]) if split is None else split
        if image is None:
            raise _no_column(path, table, PATH_COLUMNS, "--image COLUMN (image=) names it")
        found = ((named(column, "--target"), kind) for column, kind in asked.targets)
        targets = {index: kind for index, kind in found if index is not None}
        if not targets:
            others = [index for index in range(len(known)) if index not in (image, name, split)]
            label = next((known.index(each) for each in LABEL_COLUMNS if each in known), None)
            label = others[0] if label not in others and len(others) == 1 else label
            if label not in others:
                raise _no_column(path, table, LABEL_COLUMNS, "--target COLUMN (targets=) names it")
            targets = {label: None}
        return cls(image, targets, split, name, bool(asked.targets))


def _shown(header: Sequence[str]) -> str:
    return ", ".join(map(repr, header))[:300] or "nothing"


def _no_column(path: Path, table: Table, wanted: Sequence[str], option: str) -> SourceError:
    return SourceError(
        f"{path}, line 1: the first line must name the columns, one of them {wanted[0]!r} (or {', '.join(wanted[1:])}; "
        f"{option}); it has {_shown(table.header)}. Such as: path,label",
        path=str(path),
        lines=[1],
    )


def read_targets(words: list[str]) -> dict[str, str | None] | None:
    """Read ``COLUMN`` and ``COLUMN:KIND`` words of a command line; None if there are none."""
    targets: dict[str, str | None] = {}
    for word in words:
        column, _, kind = word.rpartition(":")
        targets[column or word] = kind if column else None
    return targets or None
