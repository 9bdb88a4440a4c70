"""The pages of the datasets: the code to copy runs on the raw files of each fake; what the page says is what is so."""

import dataclasses
import shlex
from pathlib import Path

import pytest

import recordzoo
from docs.parts import dataset_page, fakes
from recordzoo import catalogue
from recordzoo.catalogue import search as licenses
from recordzoo.cli.app import app
from recordzoo.recipes.declared import DeclaredRecipe
from tests.fakes.catalogued import catalogued, facts_of
from tests.test_docs import BLOCK


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.names())
def test_the_code_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks one after another, in an empty directory with the raw files in `data`."""
    page = dataset_page.page(name)
    blocks = [(each["language"], each["code"]) for each in BLOCK.finditer(page) if each["language"] in ("sh", "python")]
    kinds = catalogue.entry(name).class_names
    assert [language for language, _ in blocks] == ["sh", *("python", "python") * len(kinds)]
    monkeypatch.chdir(tmp_path)
    fake = catalogued()[name]
    fake.write_archive(tmp_path / "data")
    # The catalogue has the fake's sizes and hashes, without the real numbers of samples and classes.
    made, real, begin = dataclasses.replace(facts_of(fake), num_classes=None), catalogue.entry, DeclaredRecipe.__init__
    monkeypatch.setattr(catalogue, "entry", lambda each: made if each == name else real(each))

    def begin_without_counts(recipe: DeclaredRecipe, *arguments: object) -> None:
        begin(recipe, *arguments)  # type: ignore[arg-type]
        recipe.counts = {}

    monkeypatch.setattr(DeclaredRecipe, "__init__", begin_without_counts)
    for case in fake.cases:
        for attribute, value in case.attributes.items():
            monkeypatch.setattr(getattr(recordzoo, case.name), attribute, value)
    for language, text in blocks:
        if language == "sh":
            with pytest.raises(SystemExit) as ended:
                app(shlex.split(text)[1:], prog_name="recordzoo")
            assert ended.value.code == 0
        else:
            values: dict[str, object] = {}
            exec(compile(text, f"{name}.md", "exec"), values)
            assert any(isinstance(value, recordzoo.RecordLoader) for value in values.values()) == ("loader" in text)
    for kind in kinds:
        assert f"`{kind}`" in page
        assert fakes.seen(name).samples[kind]


@pytest.mark.parametrize(
    ("text", "group", "name", "shown"),
    [
        ("Public domain (images of a map)", licenses.OPEN, "Public domain", "Public domain"),
        ("CC BY 4.0; DermaMNIST CC BY-NC 4.0", licenses.LIMITED, "CC BY 4.0", "CC BY 4.0 and other terms"),
        ("Its own, non-commercial: https://a.b", licenses.LIMITED, "", "research or non-commercial use"),
        ("MIT (repository license)", licenses.OTHER, "MIT", "MIT (of the repository)"),
        ("Not stated by its authors; used for research.", licenses.NOT_STATED, "", "not stated"),
    ],
)
def test_a_license_in_a_few_words(text: str, group: str, name: str, shown: str) -> None:
    assert (licenses.group(text), licenses.name(text), licenses.shown(text)) == (group, name, shown)
