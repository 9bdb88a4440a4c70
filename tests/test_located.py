"""In one opening a record set is looked for once, and in one preparation its raw data."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recordzoo
from recordzoo import ImageFolderRecord
from recordzoo.datasets.cub200 import CUB200Record
from tests.fakes import cub200, folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset's tree and one of the user's own, prepared, with a variant each."""
    root = tmp_path_factory.mktemp("located")
    cub200.build().write_tree(root / "birds")
    folder.write_tree(root / "photos")
    for variant in (None, "8"):
        CUB200Record(root / "birds", variant=variant)
        ImageFolderRecord(root / "photos", variant=variant)
    return root


def counted(call: Callable[[], object]) -> tuple[list[str], int]:
    """Return of which paths a call asks, in order, whether there is a record set; and how often it finds raw data."""
    asked, found = [], []

    # Any: whatever Python says of a call.
    def profile(frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and name == "is_record_set":
            asked.append(frame.f_locals["path"].name)
        elif event == "call" and name in ("DeclaredRecipe.find", "FolderRecipe.find"):
            found.append(name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return asked, len(found)


@pytest.mark.parametrize(
    ("kind", "path", "variant", "asked"),
    [
        (CUB200Record, "birds", None, ["birds", "cub200.records"]),
        (CUB200Record, "birds", "8", ["birds", "cub200.records", "cub200-8.records"]),
        (CUB200Record, "birds/cub200.records", None, ["cub200.records"]),
        (ImageFolderRecord, "photos", None, ["photos", "photos.records"]),
        (ImageFolderRecord, "photos", "8", ["photos", "photos.records", "photos-8.records"]),
    ],
)
def test_opening_asks_once_of_each_place(
    kind: type[CUB200Record | ImageFolderRecord], path: str, variant: str | None, asked: list[str], root: Path
) -> None:
    assert counted(lambda: kind(root / path, variant=variant)) == (asked, 0)


def test_prepare_asks_once_of_what_is_there(root: Path) -> None:
    assert counted(lambda: recordzoo.prepare("cub200", root / "birds")) == (["cub200", "cub200.records"], 0)


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({"refresh": "if-changed"}, 1),
        ({"refresh": True}, 2),
        ({"records_dir": "new/cub200.records"}, 2),  # in a directory that is not there
    ],
)
# Any: options of all kinds.
def test_raw_data_is_found_once_and_looked_at_again_at_the_end(
    options: dict[str, Any], times: int, root: Path, tmp_path: Path
) -> None:
    if "records_dir" in options:
        options = {"records_dir": tmp_path / options["records_dir"]}
    assert counted(lambda: CUB200Record(root / "birds", **options))[1] == times


def test_changed_raw_data_is_found_once_for_the_comparison_and_the_work(root: Path, tmp_path: Path) -> None:
    tree = folder.write_tree(tmp_path / "photos")
    ImageFolderRecord(tree)
    (tree / "cat" / "new.jpg").write_bytes(folder.image_bytes("new.jpg", 1))
    assert counted(lambda: recordzoo.prepare(tree, refresh="if-changed"))[1] == 2
    assert f"{tree}/cat/new.jpg" in dict(ImageFolderRecord(tree).samples)
