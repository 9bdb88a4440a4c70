"""GTSRB's list of test labels, missing or damaged."""

from pathlib import Path

import pytest

import recordzoo
from recordzoo.errors import SourceError
from tests.fakes.class_folders import gtsrb


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((b"ClassId", b"Class"), r"GT-final_test\.csv is no list of files and their classes \(KeyError\('ClassId'\)\)"),
        ((b"\r\n", b"x\r\n"), r"GT-final_test\.csv is no list of files"),
        ((b"00000.ppm", b"00009.ppm"), r"1 images that the lists name are missing in the raw data.* 00009\.ppm"),
    ],
    ids=["a column", "a label", "a file"],
)
def test_a_damaged_list(change: tuple[bytes, bytes], said: str, tmp_path: Path) -> None:
    path = gtsrb.write_tree(tmp_path) / "gtsrb" / "GT-final_test.csv"
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(SourceError, match=said):
        recordzoo.prepare("gtsrb.test", tmp_path, check_hash=False, workers=1)


def test_without_the_list_there_is_no_test_set(tmp_path: Path) -> None:
    (gtsrb.write_tree(tmp_path) / "gtsrb" / "GT-final_test.csv").unlink()
    with pytest.raises(recordzoo.errors.NotPreparedError, match=r"GTSRB_Final_Test_GT\.zip"):
        recordzoo.GTSRBRecord(tmp_path, "test")
    assert len(recordzoo.GTSRBRecord(tmp_path, workers=1)) == 12
