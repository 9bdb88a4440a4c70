"""The examples in the dataset classes' docstrings run, on fakes."""

import doctest
from pathlib import Path

import pytest

from recordzoo import ImageFolderRecord
from tests import contract
from tests.fakes import cifar as cifar10
from tests.fakes import folder, voc


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder.write_tree(tmp_path / "photos")
    cifar10.build().write_archive(tmp_path / "data")
    voc.build().write_archive(tmp_path / "data")
    classes = {
        "ImageFolderRecord": ImageFolderRecord,
        "CIFAR10Record": contract.CIFAR10Record,
        "VOCDetectionRecord": contract.VOCDetectionRecord,
        "VOCSegmentationRecord": contract.VOCSegmentationRecord,
    }
    for name, kind in classes.items():
        documented = kind if kind is ImageFolderRecord else kind.__mro__[1]
        examples = doctest.DocTestFinder(recurse=False).find(documented, name, globs=dict(classes))
        assert [len(example.examples) for example in examples] == [2], name
        for example in examples:
            assert doctest.DocTestRunner().run(example).failed == 0, name
