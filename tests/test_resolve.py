"""A recipe's table becomes slots and positions; what is missing, skipped or contradictory is said or left out."""

from typing import Any

import numpy as np
import pytest

from recordzoo.errors import PrepareError, SourceError
from recordzoo.preparing.assemble import resolve
from recordzoo.recipes.recipe import ABSENT, Table
from recordzoo.records.manifest import BlobSpec


class Birds:
    """Stands for a recipe: all that `resolve` asks of one."""

    set_name = "birds"
    main_field = "image"
    fields = {"image": BlobSpec("image"), "mask": BlobSpec("image")}  # noqa: RUF012 - never changed


STORED = {"image": ["c.jpg", "a.jpg", "b.jpg"], "mask": ["b.png", "a.png"]}


def table(**changes: Any) -> Table:
    facts = {
        "names": ["a.jpg", "b.jpg", "c.jpg"],
        "keys": {"mask": ["a.png", "b.png", None]},
        "arrays": {"target": np.array([10, 20, 30])},
        "splits": {"train": ["c.jpg", "a.jpg"], "test": np.array([1])},
    }
    return Table(**(facts | changes))


def test_a_skipped_image_takes_its_position_out_of_everything():
    stored = {**STORED, "image": ["c.jpg", "b.jpg"]}
    shapes = {"image": np.array([[1, 1, 3], [2, 2, 3], [3, 3, 3]], np.uint32)}
    found, slots = resolve(Birds(), table(shapes=shapes), stored, {"a.jpg"})
    assert (found.names, found.arrays["target"].tolist()) == (["b.jpg", "c.jpg"], [20, 30])
    assert {name: each.tolist() for name, each in slots.items()} == {"image": [1, 0], "mask": [0, ABSENT]}
    assert {name: each.tolist() for name, each in found.splits.items()} == {"train": [1], "test": [0]}
    assert found.shapes["image"].tolist() == [[2, 2, 3], [3, 3, 3]]


def test_a_skipped_mask_leaves_its_image():
    _, slots = resolve(Birds(), table(), {**STORED, "mask": ["b.png"]}, {"a.png"})
    assert {name: each.tolist() for name, each in slots.items()} == {"image": [1, 2, 0], "mask": [ABSENT, 0, ABSENT]}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"names": ["a.jpg", "b.jpg", "d.jpg"]}, r"lacks 1 image that the lists name, the first is d\.jpg\."),
        ({"splits": {"train": ["a.jpg", "d.jpg"]}}, r"the split train names d\.jpg, which is not in the raw data\."),
        ({"arrays": {"target": np.array([1])}}, "has 3 records, but target has 1"),
        ({"keys": {}}, "but mask has none"),
        ({"splits": {"test": np.array([3])}}, "the split test points outside of its 3 records"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(changes, told):
    kind = SourceError if "d\\.jpg" in told else PrepareError
    with pytest.raises(kind, match=told):
        resolve(Birds(), table(**changes), STORED, set())
