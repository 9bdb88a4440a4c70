"""Croissant metadata: `mlcroissant` accepts each document, and reads in it what the disk and the catalogue have."""

import json
import re
from typing import Any

import pytest
from mlcroissant import Dataset

from docs.parts import croissant
from recordzoo import catalogue

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
