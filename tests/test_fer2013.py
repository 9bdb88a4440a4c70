"""FER2013 from each of the .csv files that torchvision accepts; `tests/test_contract.py` tries the first of them."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import recordzoo
from tests import contract
from tests.fakes.arrays import faces

ALL = ("fer2013.csv", "icml_face_data.csv", "train.csv", "test.csv")


def write(root: Path, *names: str) -> Path:
    (root / "fer2013").mkdir(parents=True)
    for name in names:
        (root / "fer2013" / name).write_bytes(faces()[name])
    return root


def seen(dataset: Any) -> list[Any]:
    samples = [(image.mode, image.tobytes(), label) for image, label in map(dataset.__getitem__, range(len(dataset)))]
    return [*samples, *((face.dtype, face.tolist(), label) for face, label in dataset._samples)]


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("names", [ALL, ALL[:2], ALL[1:], ALL[1:2], ALL[2:]], ids="+".join)
def test_each_file(names: tuple[str, ...], split: str, tmp_path: Path) -> None:
    theirs = contract.FER2013(write(tmp_path / "theirs", *names), split)
    ours = contract.FER2013Record(write(tmp_path / "ours", *names), split)
    assert seen(ours) == seen(theirs)
    assert [label for _, label in ours] == ours.targets
    assert (ours[0][1] is None) == (names == ALL[2:] and split == "test")
    for kind in (ours, theirs):
        kind.target_transform = repr
    assert seen(pickle.loads(pickle.dumps(ours))) == seen(theirs)


@pytest.mark.parametrize("name", ALL[:3])
def test_a_quoted_header(name: str, tmp_path: Path) -> None:
    expected = seen(contract.FER2013Record(write(tmp_path / "plain", name)))
    path = write(tmp_path / "quoted", name) / "fer2013" / name
    header, _, rows = path.read_text().partition("\n")
    path.write_text(",".join(f'"{column}"' for column in header.split(",")) + "\n" + rows)
    assert seen(recordzoo.FER2013Record(tmp_path / "quoted", check_hash=False)) == expected


def test_a_split_needs_no_file_of_the_other(tmp_path: Path) -> None:
    root = write(tmp_path, "test.csv")
    assert len(contract.FER2013Record(root, "test")) == len(contract.FER2013(root, "test")) == 3
    with pytest.raises(RuntimeError):
        contract.FER2013(root)
    with pytest.raises(recordzoo.errors.NotPreparedError, match=r"fer2013\.tar\.gz"):
        contract.FER2013Record(root)


def test_a_face_changed_in_place_stays_changed(tmp_path: Path) -> None:
    root = write(tmp_path, "test.csv")
    theirs, ours = contract.FER2013(root, "test"), contract.FER2013Record(root, "test")
    for dataset in (theirs, ours):
        dataset._samples[0][0].zero_()
    for twin in (ours, copy.copy(ours), pickle.loads(pickle.dumps(ours))):
        assert seen(twin) == seen(theirs)


@pytest.mark.parametrize(
    "change", [(b" 1", b" 999"), (b"emotion", b"feeling"), (b"\r\n", b' 0"\r\n'), (faces()["train.csv"], b"")]
)
def test_a_damaged_file_is_an_error(change: tuple[bytes, bytes], tmp_path: Path) -> None:
    path = write(tmp_path, "train.csv") / "fer2013" / "train.csv"
    path.write_bytes(path.read_bytes().replace(*change))
    said = r"train\.csv is (damaged|not a file of fer2013)|there is no face in the raw data"
    for make in (contract.FER2013Record, lambda root: recordzoo.prepare("fer2013.train", root, check_hash=False)):
        with pytest.raises(recordzoo.errors.SourceError, match=said):
            make(tmp_path)
