"""The example of each dataset class runs, on fakes: that of its docstring, or the usual one."""

import doctest
import os
from pathlib import Path

import pytest

from docs.parts.code import example
from recordzoo import DatasetFolderRecord, ImageFolderRecord, RecordLoader
from tests import contract
from tests.fakes import folder
from tests.fakes.catalogued import catalogued


def run_examples(name: str, kind: type, documented: type) -> None:
    globs = {name: kind, "os": os}
    found = doctest.DocTestParser().get_doctest(example(documented, name), globs, name, None, None)
    assert len(found.examples) >= 2
    assert doctest.DocTestRunner().run(found).failed == 0


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder.write_tree(tmp_path / "photos")
    for kind in (ImageFolderRecord, DatasetFolderRecord):
        run_examples(kind.__name__, kind, kind)


def test_the_example_of_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder.write_tree(
        tmp_path / "photos", {f"{number % 2}/{number}.jpg": folder.image_bytes("a.jpg", number) for number in range(4)}
    )
    found = doctest.DocTestParser().get_doctest(RecordLoader.__doc__ or "", {"RecordLoader": RecordLoader}, "", None, 0)
    assert doctest.DocTestRunner().run(found).failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("fake", catalogued().values(), ids=lambda fake: fake.dataset)
def test_examples_of_declared_datasets(fake: contract.Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fake.write_archive(tmp_path / "data")
    for case in fake.cases:
        kind = getattr(contract, case.name)
        run_examples(case.name, kind, kind.__mro__[1])
