"""Omniglot's loader: none by default, and one of the user's."""

import pickle
import shutil
from pathlib import Path

from torchvision.datasets.folder import pil_loader

from tests import contract
from tests.fakes.class_folders import omniglot


def test_a_loader_of_the_users(tmp_path: Path) -> None:
    theirs = contract.Omniglot(omniglot.write_tree(tmp_path / "theirs"), loader=pil_loader)
    ours = contract.OmniglotRecord(omniglot.write_tree(tmp_path / "ours"), loader=pil_loader)
    shutil.rmtree(tmp_path / "ours" / "omniglot-py" / "images_background")
    for dataset in (ours, pickle.loads(pickle.dumps(ours))):
        assert dataset.loader == pil_loader
        assert [(image.mode, image.tobytes(), label) for image, label in dataset] == [
            (image.mode, image.tobytes(), label) for image, label in theirs
        ]
    stored = ours.read(0)
    ours.loader = theirs.loader = lambda path: Path(path).read_bytes()
    assert ours[0] == theirs[0] == (stored, 0)
    ours.loader = theirs.loader = None
    assert ours.loader is None
    assert ours[0][0].mode == theirs[0][0].mode == "L"
