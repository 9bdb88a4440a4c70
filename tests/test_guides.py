"""The guides state what the code does and what was measured: their tables are compared with both."""

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torchvision import transforms as v1
from torchvision.transforms import v2

from recordzoo.cli.app import app
from recordzoo.loader.plan import Plan
from recordzoo.loader.table import READERS, read_plan
from tests.fakes import annotated
from tests.loaders import take_batches
from tests.test_docs import ROOT

TRAINING = ROOT / "docs" / "training.md"
KNOWN = READERS.keys()


def rows(page: Path, header: str) -> list[list[str]]:
    """Read the rows of a page's table that begins with this header: their cells."""
    table = page.read_text(encoding="utf-8").partition(f"\n| {header} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def plans(cell: str) -> list[Plan]:
    """Read what a loader makes of each example in a cell."""
    names = {"T": v1, "v2": v2, "torch": torch}
    return [read_plan(v1.Compose(eval(f"[{code}]", names))) for code in re.findall(r"`([^`]*\)[^`]*)`", cell)]


COMPILED = rows(TRAINING, "transforms")


def named(row: list[str]) -> list[tuple[str, str]]:
    """Read the classes in a row of the table of transforms, each with the only module whose class is meant, if any."""
    return re.findall(r"`(\w+)`(?: \(`(T|v2)`\))?", row[0])


@pytest.mark.parametrize("row", COMPILED, ids=lambda row: row[0])
def test_the_table_of_transforms_is_that_of_the_code(row: list[str]) -> None:
    for name, only in named(row):
        for label, module in (("T", v1), ("v2", v2)):
            assert (getattr(module, name, None) in KNOWN) == (only in ("", label)), name
    assert plans(row[1])
    assert [plan.reason for plan in plans(row[1])] == [""] * len(plans(row[1]))
    assert all(plan.reason for plan in plans(row[2]))


def test_no_transform_is_missing_from_the_table() -> None:
    assert {name for row in COMPILED for name, _ in named(row)} == {kind.__name__ for kind in KNOWN}


def test_the_better_order_is_better() -> None:
    for before, after, counts in rows(TRAINING, "instead of"):
        assert counts == f"{len(plans(before)[0].fused)}, then {len(plans(after)[0].fused)}"


# Any: what a page's code makes.
def run(
    name: str, headings: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> dict[str, Any]:
    """Run the blocks of a page's sections in a folder with the data that they suppose; return all that they name."""
    monkeypatch.chdir(folder)
    write(folder)
    names: dict[str, Any] = {}
    page = (ROOT / "docs" / "guides" / name).read_text(encoding="utf-8")
    sections = [page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] for heading in headings]
    assert all(sections)
    blocks = re.findall(r"```(python|sh)\n(.*?)```", "".join(sections), re.DOTALL)
    taken: list[Any] = []
    for language, code in blocks:
        if language == "python":
            exec(code, names)
            take_batches(names, taken)
        else:
            app(shlex.split(code, comments=True)[1:], standalone_mode=False)
    return names


@pytest.mark.slow
def test_detection_trains_on_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("boxes-and-masks.md", ["Detection: images with boxes"], tmp_path, monkeypatch, annotated.write_birds)
    assert all(loss.isfinite() for loss in names["losses"].values())
    assert all(parameter.isfinite().all() for parameter in names["model"].parameters())
    assert len(names["images"]) == 2
    assert {image.shape for image in names["images"]} == {(3, 60, 80)}
    document = annotated.coco_document(1, 4)
    ids = {number: place for place, (number, _) in enumerate(annotated.CATEGORIES)}
    for _, target in names["batch"]:
        found = [each for each in document["annotations"] if each["image_id"] == target["image_id"]]
        assert target["labels"].tolist() == [ids[each["category_id"]] for each in found]
        boxes = torch.tensor([each["bbox"] for each in found]).reshape(-1, 4)
        assert torch.equal(target["boxes"][:, 1], boxes[:, 1])
        assert torch.allclose(target["boxes"][:, 2] - target["boxes"][:, 0], boxes[:, 2])
    assert sum(len(target["labels"]) for target in names["targets"]) > 0
    assert min(label for target in names["targets"] for label in target["labels"]) > 0


@pytest.mark.slow
def test_segmentation_trains_on_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run("boxes-and-masks.md", ["Segmentation: images with masks"], tmp_path, monkeypatch, annotated.write_roads)
    assert names["loss"].isfinite()
    assert all(parameter.isfinite().all() for parameter in names["model"].parameters())
    assert (names["images"].shape, names["masks"].shape) == ((2, 3, 128, 128), (2, 128, 128))
    assert names["masks"].unique().tolist() == [0, 1, 2, 255]
