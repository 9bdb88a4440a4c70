"""Convert the cells of a column to a field: classes, integers, floats, several labels, text."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordzoo.recipes.columns import Faults
from recordzoo.recipes.listing import Column
from recordzoo.recipes.recipe import BlobField
from recordzoo.records.kinds import FieldKind, FieldSpec

_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|nan|inf)", re.IGNORECASE)
_PADDED = re.compile(r"[+-]?0[0-9]")
_FRACTION = re.compile(r"[.e]", re.IGNORECASE)
_INT64 = range(-(1 << 63), 1 << 63)
_EXACT_FLOATS = range(-(1 << 53), (1 << 53) + 1)
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_MAX_NAME_CHARACTERS = 4096
_MAX_LABELS_BYTES = 4 << 30


def _is_float32(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and not _MAX_FLOAT32 < abs(float(cell)) < math.inf


@dataclass(frozen=True)
class Cells:
    """A column.

    Attributes:
        column: The column's header.
        what: The word for its values in messages: "label", or the header.
        cells: N texts.
        lines: The line of each text.
        is_text: Whether the table's types say that they are not numbers.
    """

    column: str
    what: str
    cells: Sequence[str]
    lines: Sequence[int]
    is_text: bool

    def numbers(self) -> NDArray[Any] | None:  # Any: of either dtype
        """Return the numbers, NaN for empty cells; None if a cell is not a number, or would lose digits.

        Numbers with leading zeros, such as postcodes, are names.
        """
        filled = [cell for cell in self.cells if cell]
        if self.is_text or not filled or not all(map(_NUMBER.fullmatch, filled)) or any(map(_PADDED.match, filled)):
            return None
        whole = [int(cell) for cell in filled if _WHOLE.fullmatch(cell)]
        if len(whole) == len(self.cells) and all(number in _INT64 for number in whole):
            return np.array(whole, np.int64)
        if not all(number in _EXACT_FLOATS for number in whole):
            return None
        return np.array([float(cell or "nan") for cell in self.cells], np.float64)

    def field(self) -> Column:
        """Return the field of a column that is not a target: numbers if all cells are numbers, else text."""
        numbers = self.numbers()
        if numbers is None:
            return self._texts()
        return self._made(FieldKind.FLOAT if numbers.dtype.kind == "f" else FieldKind.INT, numbers)

    def _made(self, kind: FieldKind, values: NDArray[Any], names: Sequence[str] | None = None) -> Column:
        return Column(FieldSpec(kind, None if names is None else tuple(names)), values, header=self.column)

    def _texts(self) -> Column:
        return Column(FieldSpec(FieldKind.TEXT), self.cells, BlobField("json"), self.column)

    def target(self, kind: str | None, faults: Faults) -> Column:
        """Return a target; without a kind it is a class, or a float if all cells are numbers, some with a fraction.

        Raises:
            SourceError: A cell does not have that kind, or there were faults before.
        """
        is_float = kind is None and any(map(_FRACTION.search, self.cells)) and self.numbers() is not None
        if is_float or kind in (None, "class", "int"):
            self._refuse(lambda cell: not cell, lambda _: f"no {self.what}", faults)
        if kind == "text":
            return self._texts()
        if is_float or kind == "float":
            self._refuse(lambda cell: cell and not _is_float32(cell), self._is_no("float32 number"), faults)
            faults.raise_if_any()
            return self._made(FieldKind.FLOAT, np.array([float(c or "nan") for c in self.cells], np.float32))
        if kind == "int":
            self._refuse(lambda cell: cell and not _WHOLE.fullmatch(cell), self._is_no("whole number"), faults)
            faults.raise_if_any()
            return self._made(FieldKind.INT, self._whole(faults))
        return self._labels(faults) if kind == "multilabel" else self._classes(faults)

    def _refuse(self, is_wrong: Callable[[str], object], say: Callable[[str], str], faults: Faults) -> None:
        for line, cell in zip(self.lines, self.cells, strict=True):
            if is_wrong(cell):
                faults.add(line, say(cell))

    def _is_no(self, kind: str) -> Callable[[str], str]:
        return lambda cell: f"the {self.what} {cell[:80]!r} is no {kind}"

    def _whole(self, faults: Faults) -> NDArray[np.int64]:
        number_of = {cell: int(cell) for cell in set(self.cells)}
        self._refuse(
            lambda cell: number_of[cell] not in _INT64,
            lambda cell: f"the {self.what} {number_of[cell]} has more than 64 bits",
            faults,
        )
        faults.raise_if_any()
        return np.fromiter((number_of[cell] for cell in self.cells), np.int64, len(self.cells))

    def _classes(self, faults: Faults) -> Column:
        """Return integers unchanged; other cells become class names, numbered in sorted order."""
        if not self.is_text and all(map(_WHOLE.fullmatch, self.cells)):
            self._check_spellings(faults)
            return self._made(FieldKind.CLASS, self._whole(faults))
        names = self._names(self.cells, faults)
        label_of = {name: label for label, name in enumerate(names)}
        labels = np.fromiter((label_of[cell] for cell in self.cells), np.int64, len(self.cells))
        return self._made(FieldKind.CLASS, labels, names)

    def _check_spellings(self, faults: Faults) -> None:
        """Refuse different texts for the same number: they may be one class or two."""
        first: dict[int, str] = {}
        reported: set[str] = set()
        for line, cell in zip(self.lines, self.cells, strict=True):
            known = first.setdefault(int(cell), cell)
            if cell != known and cell not in reported:
                reported.add(cell)
                faults.add(
                    line, f"the {self.what}s {cell!r} here and {known!r} above are the same number: use one spelling"
                )

    def _names(self, labels: Iterable[str], faults: Faults) -> tuple[str, ...]:
        names = sorted(set(labels))
        if any(len(name) > _MAX_NAME_CHARACTERS for name in names):
            too_long = f"a {self.what} of %s characters"
            self._refuse(
                lambda cell: len(cell) > _MAX_NAME_CHARACTERS, lambda cell: too_long % f"{len(cell):,}", faults
            )
        return tuple(names)

    def _labels(self, faults: Faults) -> Column:
        """Return uint8 [N, C] of 0 and 1."""
        labels_of = {cell: {label.strip() for label in cell.split(",")} - {""} for cell in set(self.cells)}
        names = self._names((label for labels in labels_of.values() for label in labels), faults)
        if not names or len(names) * len(self.cells) > _MAX_LABELS_BYTES:
            few_or_many = f"{len(names):,} different labels, too many" if names else "no labels"
            faults.add(self.lines[0] if self.lines else 1, f"{self.what} has {few_or_many} for the kind multilabel")
            faults.raise_if_any()
        place_of = {name: place for place, name in enumerate(names)}
        found = np.zeros((len(self.cells), len(names)), np.uint8)
        for number, cell in enumerate(self.cells):
            found[number, [place_of[label] for label in labels_of[cell]]] = 1
        return self._made(FieldKind.MULTILABEL, found, names)
