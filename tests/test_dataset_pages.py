"""The pages of the datasets: the code to copy runs on the raw files of each fake; what the page says is what is so."""

import dataclasses
import shlex
from pathlib import Path

import pytest

import recordzoo
from docs.parts import code, dataset_page, fakes
from recordzoo import catalogue
from recordzoo.catalogue import search as licenses
from recordzoo.cli import listing as info
from recordzoo.cli.app import app
from recordzoo.recipes.declared import DeclaredRecipe
from tests.fakes.catalogued import catalogued, facts_of
from tests.test_docs import BLOCK


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory; what it has is nobody else's."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def take_fake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the catalogue have the fake's sizes and hashes, without the real numbers of samples and classes."""
    fake = catalogued()[name]
    made = dataclasses.replace(facts_of(fake), num_classes=None)
    real, begin = catalogue.entry, DeclaredRecipe.__init__
    monkeypatch.setattr(catalogue, "entry", lambda each: made if each == name else real(each))

    def begin_without_counts(recipe: DeclaredRecipe, *arguments: object) -> None:
        begin(recipe, *arguments)  # type: ignore[arg-type]
        recipe.counts = {}

    monkeypatch.setattr(DeclaredRecipe, "__init__", begin_without_counts)
    for case in fake.cases:
        for attribute, value in case.attributes.items():
            monkeypatch.setattr(getattr(recordzoo, case.name), attribute, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.names())
def test_the_code_of_a_page_runs(name: str, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks one after another, in an empty directory with the raw files in `data`."""
    page = dataset_page.page(name)
    blocks = [(each["language"], each["code"]) for each in BLOCK.finditer(page) if each["language"] in ("sh", "python")]
    kinds = catalogue.entry(name).class_names
    assert [language for language, _ in blocks] == ["sh", *("python", "python") * len(kinds)]
    catalogued()[name].write_archive(empty / "data")
    take_fake(name, monkeypatch)
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


def test_a_page_without_fakes_has_all_that_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDZOO_DOCS_FAKES", "0")
    for entry in map(catalogue.entry, catalogue.names()):
        page = dataset_page.page(entry.name)
        assert "\n## Samples\n" not in page
        assert "<svg" not in page
        assert all(f"| `{split.name}` | {split.count:,} |" in page for split in entry.splits)
        for file in entry.files:
            assert f"`{file.name}`" in page
            assert (file.hashes or "none known") in page
            for fact in (file.name, file.hashes, file.size_bytes and f"{file.size_bytes:,}", *file.urls[:1]):
                assert fact is None or (fact in page and fact in info.describe(entry)), "the command says the same"
        assert entry.license in page
        assert "".join(entry.citation.split()) in "".join(page.split())
        assert all(f"`{name}`" in page for name in entry.class_names)
        assert all(difference in page for difference in entry.differences)
        assert ("## How to get the files" in page) == (entry.obtained != "download" or bool(entry.instructions))
        assert code.prepare(entry) in page
        assert f"| **disk** | {info.disk(entry)} |" in page
        assert f"| **time** | {info.duration(entry)} |" in page
        assert ("](../sources.md){ .badge" in page) == any(file.urls for file in entry.files)
        assert entry.license_source.partition("http")[0] in page


@pytest.mark.parametrize(
    ("text", "group", "name", "shown"),
    [
        ("MIT", licenses.OPEN, "MIT", "MIT"),
        ("CC BY-SA 4.0", licenses.OPEN, "CC BY-SA 4.0", "CC BY-SA 4.0"),
        ("Public domain (images of a map)", licenses.OPEN, "Public domain", "Public domain"),
        ("CC BY 4.0; DermaMNIST CC BY-NC 4.0", licenses.LIMITED, "CC BY 4.0", "CC BY 4.0 and other terms"),
        ("CC BY-NC-ND 4.0", licenses.LIMITED, "CC BY-NC-ND 4.0", "CC BY-NC-ND 4.0"),
        ("CC BY-ND 4.0", licenses.OTHER, "CC BY-ND 4.0", "CC BY-ND 4.0"),
        ("Its own, non-commercial: https://a.b", licenses.LIMITED, "", "research or non-commercial use"),
        (
            "CC BY 4.0 for the annotations. Photographs: others.",
            licenses.OTHER,
            "CC BY 4.0",
            "CC BY 4.0 and other terms",
        ),
        ("MIT (repository license)", licenses.OTHER, "MIT", "MIT (of the repository)"),
        ("Terms of use, to be accepted.", licenses.OTHER, "", "other terms"),
        ("Not stated by its authors; used for research.", licenses.NOT_STATED, "", "not stated"),
    ],
)
def test_a_license_in_a_few_words(text: str, group: str, name: str, shown: str) -> None:
    assert (licenses.group(text), licenses.name(text), licenses.shown(text)) == (group, name, shown)
