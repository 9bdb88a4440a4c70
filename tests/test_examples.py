"""The examples in docstrings of classes run, on fakes; those that pages make are run by `test_dataset_pages`."""

import doctest
import inspect
import os
from pathlib import Path

import pytest

import recordzoo
from recordzoo import DatasetFolderRecord, ImageFolderRecord, RecordLoader
from tests import contract
from tests.fakes import folder
from tests.fakes.catalogued import catalogued

WITH_EXAMPLES = [
    (fake, case.name)
    for fake in catalogued().values()
    for case in fake.cases
    if ">>>" in (getattr(recordzoo, case.name).__doc__ or "")
]


def run_examples(name: str, kind: type, documented: type) -> None:
    globs = {name: kind, "os": os}
    found = doctest.DocTestParser().get_doctest(inspect.cleandoc(documented.__doc__ or ""), globs, name, None, None)
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
@pytest.mark.parametrize(("fake", "name"), WITH_EXAMPLES, ids=[name for _, name in WITH_EXAMPLES])
def test_examples_of_declared_datasets(
    fake: contract.Fake, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fake.write_archive(tmp_path / "data")
    kind = getattr(contract, name)
    run_examples(name, kind, kind.__mro__[1])
