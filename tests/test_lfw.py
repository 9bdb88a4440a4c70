"""Labeled Faces in the Wild, beyond the contract: lists that are missing, and pairs with a broken image."""

import dataclasses
from pathlib import Path

import pytest

import recordzoo
from recordzoo.errors import DownloadError, NotPreparedError, SourceError
from tests.fakes.fake import Fake
from tests.fakes.lfw import lfw as FAKE
from tests.fakes.server import FileServer

PEOPLE = ("people.txt", "peopleDevTrain.txt", "peopleDevTest.txt", "lfw-names.txt")


def _without(*names: str) -> Fake:
    return dataclasses.replace(FAKE, files={name: data for name, data in FAKE.files.items() if name not in names})


def test_pairs_need_no_lists_of_people(tmp_path: Path) -> None:
    _without(*PEOPLE).write_archive(tmp_path)
    with pytest.raises(NotPreparedError, match=r"lfw\.funneled: no records and no raw data"):
        recordzoo.LFWPeopleRecord(tmp_path)  # says so before anything is converted
    assert not list(tmp_path.glob("*.records"))
    pairs = recordzoo.LFWPairsRecord(tmp_path, check_hash=False)
    assert len(pairs) == 8
    with pytest.raises(NotPreparedError, match=r"has no split 'people-train'.*refresh=True"):
        recordzoo.LFWPeopleRecord(tmp_path, "train")
    FAKE.write_archive(tmp_path)
    assert len(recordzoo.LFWPeopleRecord(tmp_path, check_hash=False, refresh=True)) == 13


def test_labels_without_the_list_of_names(tmp_path: Path) -> None:
    _without("lfw-names.txt").write_archive(tmp_path)
    assert recordzoo.LFWPeopleRecord(tmp_path, check_hash=False).class_to_idx["Abdullah"] == 2


def test_what_mirrors_lack_is_left_out_of_a_download(tmp_path: Path) -> None:
    with FileServer({f"lfw/{name}": data for name, data in _without(*PEOPLE).files.items()}) as server:
        with pytest.raises(DownloadError, match=r"people\.txt"):
            recordzoo.LFWPeopleRecord(tmp_path / "people", download=True, mirror=server.url, check_hash=False)
        pairs = recordzoo.LFWPairsRecord(tmp_path / "pairs", download=True, mirror=server.url, check_hash=False)
    assert len(pairs) == 8


def test_a_pair_with_a_broken_image_is_left_out_whole(tmp_path: Path) -> None:
    FAKE.write_tree(tmp_path)
    broken = tmp_path / "lfw-py/lfw_funneled/Abdullah/Abdullah_0001.jpg"
    whole = recordzoo.LFWPairsRecord(tmp_path)
    kept = [pair for pair in zip(whole.data, whole.targets, strict=True) if str(broken) not in pair[0]]
    assert 0 < len(kept) < len(whole)
    broken.write_bytes(b"no image")
    rest = recordzoo.LFWPairsRecord(tmp_path, on_error="skip", refresh=True)
    assert list(zip(rest.data, rest.targets, strict=True)) == kept
    assert [rest[number][2] for number in range(len(rest))] == rest.targets


@pytest.mark.parametrize("row", ["Abdullah\t1\t2\t3\t4", "Abdullah\t1", "Zoran_Djindjic\t2\tZoran_Djindjic\t1"])
def test_a_row_that_is_no_pair(row: str, tmp_path: Path) -> None:
    FAKE.write_tree(tmp_path)
    (tmp_path / "lfw-py/pairsDevTest.txt").write_text(f"1\nAbdullah\t2\t1\n{row}\n")
    with pytest.raises(SourceError, match=r"LFW: pairsDevTest\.txt has .* where a pair of two people should be"):
        recordzoo.LFWPairsRecord(tmp_path)
