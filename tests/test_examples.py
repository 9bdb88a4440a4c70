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


@pytest.mark.parametrize("kind", [ImageFolderRecord, DatasetFolderRecord, RecordLoader])
def test_examples(kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded = {f"{number % 2}/{number}.jpg": folder.image_bytes("a.jpg", number) for number in range(4)}
    folder.write_tree(tmp_path / "photos", loaded if kind is RecordLoader else None)
    run_examples(kind.__name__, kind, kind)


@pytest.mark.slow
@pytest.mark.parametrize(("fake", "name"), WITH_EXAMPLES, ids=[name for _, name in WITH_EXAMPLES])
def test_examples_of_declared_datasets(
    fake: contract.Fake, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fake.write_archive(tmp_path / "data")
    kind = getattr(contract, name)
    run_examples(name, kind, kind.__mro__[1])
