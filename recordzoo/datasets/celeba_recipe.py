"""How CelebA becomes records: aligned photographs; text files have the attributes, identities, boxes and landmarks."""

import csv
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

from recordzoo.base.text import lines_of, text_of
from recordzoo.errors import SourceError
from recordzoo.recipes.declared import ListedRecipe, Lists
from recordzoo.recipes.recipe import Table
from recordzoo.records.kinds import FieldKind, FieldSpec

PARTITION = "list_eval_partition.txt"
ATTRIBUTES = "list_attr_celeba.txt"
COLUMNS: Mapping[str, tuple[str, int, DTypeLike]] = {
    "attr": (ATTRIBUTES, 2, np.int8),
    "identity": ("identity_CelebA.txt", 0, np.int32),
    "bbox": ("list_bbox_celeba.txt", 2, np.int32),
    "landmarks_align": ("list_landmarks_align_celeba.txt", 2, np.int32),
}
"""For each array: its file, the number of header lines, and its type."""

_SPLITS = ("train", "valid", "test")


class CelebA(ListedRecipe):
    """All photographs, sorted by name. The splits, and "all", have the order of the list.

    Rows of the files belong together by their numbers, as in torchvision.
    """

    lists = (PARTITION, *(name for name, _, _ in COLUMNS.values()))
    files = {"image": ("img_align_celeba/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        listed = lists.rows(PARTITION, columns=2)
        order = np.array(sorted(range(len(listed)), key=lambda row: listed[row][0]), np.int64)
        position = np.argsort(order)
        partition = np.array([row.integer(1) for row in listed], np.int64)
        splits = {split: position[partition == number] for number, split in enumerate(_SPLITS)}
        # The header ends with a space: torchvision has an empty name there.
        header = lines_of(text_of(lists[ATTRIBUTES], f"{self.dataset}: {ATTRIBUTES}"))[1]
        attributes = next(csv.reader([header], delimiter=" ", skipinitialspace=True))
        return Table(
            names=[listed[row][0] for row in order.tolist()],
            arrays={field: _numbers(lists, *column, len(listed))[order] for field, column in COLUMNS.items()},
            splits={**splits, "all": position},
            fields={
                "attr": FieldSpec(FieldKind.MULTILABEL, tuple(attributes)),
                "bbox": FieldSpec(FieldKind.BOXES),
            },
            default_target="attr",
        )


def _numbers(lists: Lists, name: str, skipped: int, dtype: DTypeLike, count: int) -> NDArray[np.integer]:
    """Return the numbers of a file, [count, columns], without the names at the beginning of its lines."""
    rows, bits = lists.rows(name)[skipped:], 8 * np.dtype(dtype).itemsize
    if len(rows) != count:
        raise SourceError(f"CelebA: {name} has {len(rows):,} rows, but {PARTITION} lists {count:,} images.")
    return np.array([[row.integer(column, bits) for column in range(1, len(row))] for row in rows], dtype)


RECIPES = {"celeba": CelebA}
