"""Croissant metadata: `mlcroissant` accepts each document, and reads in it what the disk and the catalogue have."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mlcroissant import Dataset
from typing_extensions import override

from docs.parts import croissant
from recordzoo import catalogue
from tests.fakes.odd_images import HOSTILE_NAMES
from tests.preparing import REPOSITORY

# rdflib's own reader of JSON-LD
pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")

UNKNOWN = {"datePublished", "version"}
"""What mlcroissant recommends and nothing here knows."""


def read(text: str) -> tuple[Dataset, set[str]]:
    """Validate a document; return what mlcroissant read, and the properties that it misses."""
    found = Dataset(jsonld=json.loads(text))
    warnings = found.metadata.ctx.issues.warnings
    missing = {match[1] for text in warnings if (match := re.search(r"(\w+)\" is recommended", str(text)))}
    assert len(missing) == len(warnings), warnings
    return found, missing


# Any: columns have texts and numbers.
def rows(found: Dataset, record_set: str) -> list[dict[str, Any]]:
    """Return the rows of a list, with the names of fields, as mlcroissant reads them."""
    return [{key.partition("/")[2]: value for key, value in row.items()} for row in found.records(record_set)]


@pytest.mark.slow
def test_every_dataset_is_valid_and_says_what_the_catalogue_says() -> None:
    for entry in map(catalogue.entry, catalogue.names()):
        document = croissant.document(entry)
        found, missing = read(croissant.dumps(document))
        assert missing == UNKNOWN | ({"license"} if entry.license.startswith("Not stated") else set()), entry.name
        metadata = found.metadata
        assert (metadata.name, metadata.description, metadata.url) == (entry.title, entry.summary, entry.homepage)
        assert metadata.cite_as == entry.citation
        assert [(file.id, file.content_url) for file in metadata.file_objects] == [
            (file.name, file.urls[0]) for file in entry.files if file.urls
        ]
        by_name = {each["name"]: each for key in ("distribution", "associatedMedia") for each in document.get(key, [])}
        assert by_name.keys() == {file.name for file in entry.files}
        for file in entry.files:
            assert by_name[file.name].get("sha256") == file.sha256
            assert by_name[file.name].get("contentSize") == (file.size_bytes and f"{file.size_bytes} B")
            assert by_name[file.name]["encodingFormat"] != "application/octet-stream", file.name
        if entry.splits:
            written = [(row["name"], row["count"]) for row in rows(found, "splits")]
            assert written == [(split.name, split.count) for split in entry.splits]
        if entry.classes:
            written = [(row["number"], row["name"]) for row in rows(found, "classes")]
            assert written == [*enumerate(entry.classes)]


def test_a_license_is_an_spdx_address_only_where_it_is_one() -> None:
    licenses = {name: croissant.document(catalogue.entry(name)).get("license", {}) for name in catalogue.names()}
    assert licenses["eurosat"] == {
        "@type": "sc:CreativeWork",
        "name": "MIT",
        "description": "Source: LICENSE and README.md of phelber/EuroSAT.",
        "url": "https://spdx.org/licenses/MIT.html",
    }
    assert licenses["kitti"]["url"] == "https://spdx.org/licenses/CC-BY-NC-SA-3.0.html"
    assert "url" not in licenses["imagenet_a"]  # MIT is its repository's
    assert "url" not in licenses["coco"]  # of the annotations
    assert licenses["cub200"] == {}
    assert croissant.document(catalogue.entry("cub200"))["usageInfo"]["name"].startswith("Not stated")


class Scripts(HTMLParser):
    """The texts of a page's JSON-LD scripts, as a browser divides it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.is_inside = False
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.is_inside = tag == "script" and ("type", "application/ld+json") in attrs
        if self.is_inside:
            self.found.append("")

    @override
    def handle_endtag(self, tag: str) -> None:
        self.is_inside = False

    @override
    def handle_data(self, data: str) -> None:
        if self.is_inside:
            self.found[-1] += data


@pytest.mark.slow
@pytest.mark.parametrize("is_hostile", [False, True])
def test_a_page_embeds_the_file_beside_it(is_hostile: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a site of one dataset, with the hooks of the real one; no text can end the script."""
    monkeypatch.setenv("RECORDZOO_DOCS_FAKES", "0")
    monkeypatch.setattr(catalogue, "names", lambda: ["mnist"])
    if is_hostile:
        hostile = {"name": "".join(HOSTILE_NAMES), "description": "</script></head>"}
        monkeypatch.setattr(croissant, "document", lambda entry: hostile)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n")
    settings = {
        "site_name": "small",
        "theme": "mkdocs",
        "plugins": [],
        "hooks": [str(REPOSITORY / "docs" / "hooks.py")],
        "validation": {"links": {"not_found": "ignore", "anchors": "ignore"}},
    }
    (tmp_path / "mkdocs.yml").write_text(json.dumps(settings))
    build(load_config(str(tmp_path / "mkdocs.yml")))
    beside = (tmp_path / "site" / "datasets" / "mnist.croissant.json").read_text()
    assert json.loads(beside) == croissant.document(catalogue.entry("mnist"))
    page = (tmp_path / "site" / "datasets" / "mnist" / "index.html").read_text(encoding="utf-8")
    (embedded,) = Scripts(page).found
    assert json.loads(embedded) == json.loads(beside)
    assert page.index("ld+json") < page.index("</head>")
    assert '<a href="../mnist.croissant.json">Croissant</a>' in page
    assert Scripts((tmp_path / "site" / "index.html").read_text(encoding="utf-8")).found == []
