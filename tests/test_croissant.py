"""Croissant metadata: `mlcroissant` accepts each document, and reads in it what the disk and the catalogue have."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mlcroissant import Dataset
from mlcroissant._src.core.context import Context
from mlcroissant._src.core.rdf import make_context
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.catalogue import croissant
from recordzoo.exporting.to_croissant import to_croissant
from recordzoo.preparing import ensure
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.records.manifest import BlobSpec
from recordzoo.records.reader import RecordReader
from tests.fakes import cub200
from tests.fakes.annotated import write_masks, write_yolo
from tests.fakes.odd_images import HOSTILE_NAMES
from tests.fakes.records import some_values, write_records
from tests.fakes.server import FileServer
from tests.preparing import REPOSITORY, prepared
from tests.running import run
from tests.urls import with_own_cache

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


def described(path: Path) -> tuple[Dataset, set[str]]:
    """Validate what `info --croissant` prints of a record set."""
    result = run("info", path, "--croissant", cwd=path.parent)
    assert (result.returncode, result.stderr) == (0, "")
    return read(result.stdout)


# Any: columns have texts and numbers.
def rows(found: Dataset, record_set: str) -> list[dict[str, Any]]:
    """Return the rows of a list, with the names of fields, as mlcroissant reads them."""
    return [{key.partition("/")[2]: value for key, value in row.items()} for row in found.records(record_set)]


def fields(found: Dataset) -> dict[str, tuple[list[str], str | None]]:
    """Return the types and the shape of each field of the records."""
    records = found.metadata.record_sets[-1]
    assert records.id == "records"
    return {
        each.name: ([re.split("[/#]", kind)[-1] for kind in each.data_types], each.array_shape)
        for each in records.fields
    }


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("birds")
    cub200.build(4, 5).write_archive(root)
    return Path(ensure(dataset_recipe("cub200", raw_files=cub200.remote_files(root)), root, prepare=True))


def test_the_context_is_that_of_mlcroissant() -> None:
    assert make_context(Context(conforms_to="http://mlcommons.org/croissant/1.1")) == croissant.CONTEXT


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


def test_splits_of_several_parts_have_two_keys() -> None:
    found, _ = read(croissant.dumps(croissant.document(catalogue.entry("cityscapes"))))
    assert rows(found, "splits")[3] == {
        "part": "cityscapes.coarse",
        "name": "train",
        "url": "cr:TrainingSplit",
        "count": 2975,
    }
    assert found.metadata.record_sets[0].key == ["splits/part", "splits/name"]


def test_a_file_of_which_the_md5_is_not_confirmed() -> None:
    files = croissant.document(catalogue.entry("flickr30k"))["distribution"]
    facts = {file.name: file for file in catalogue.entry("flickr30k").files}
    for file in files:
        known = facts[file["name"]]
        assert known.unconfirmed
        assert ("md5" in file) == (known.sha256 is None)
        assert ("The MD5 is not confirmed." in file.get("description", "")) == (known.sha256 is None)


class TestRecordSet:
    def test_its_files_have_their_hashes(self, birds: Path) -> None:
        found, missing = described(birds)
        assert missing == UNKNOWN | {"license"}
        files = {each.id: each for each in found.metadata.file_objects}
        assert {*files} == {path.name for path in birds.iterdir() if path.suffix in (".lmdb", ".npy", ".json")} - {
            "made-from.json"
        }
        for name, file in files.items():
            data = (birds / name).read_bytes()
            assert file.sha256 == hashlib.sha256(data).hexdigest()
            assert (file.content_url, file.content_size) == (name, f"{len(data)} B")

    def test_it_says_what_the_records_are(self, birds: Path) -> None:
        found, _ = described(birds)
        entry = catalogue.entry("cub200")
        assert found.metadata.name == entry.title
        assert found.metadata.description == f"{entry.summary} A record set of recordzoo: 20 records."
        assert found.metadata.cite_as == entry.citation
        assert rows(found, "splits") == [
            {"name": "test", "url": "cr:TestSplit", "count": 10},
            {"name": "train", "url": "cr:TrainingSplit", "count": 10},
        ]
        names = RecordReader(birds).manifest.classes
        assert names is not None
        assert [(row["number"], row["name"]) for row in rows(found, "target_classes")] == [*enumerate(names)]
        assert fields(found) == {
            "name": (["Text"], None),
            "split": (["Text"], "-1"),
            "attributes": (["Integer", "Label"], "312"),
            "bbox": (["BoundingBox"], None),
            "image": (["ImageObject"], None),
            "image_id": (["Integer"], None),
            "parts": (["Float"], "15,3"),
            "target": (["Integer", "Label"], None),
        }
        references = {each.name: each.references.field for each in found.metadata.record_sets[-1].fields}
        assert references["target"] == "target_classes/number"
        assert references["split"] == "splits/name"
        assert references["attributes"] is None  # a number for each attribute, not that of an attribute

    def test_the_file_in_its_directory_is_read_there(self, birds: Path, tmp_path: Path) -> None:
        """mlcroissant finds the files beside the document, and compares their hashes."""
        folder = tmp_path / "cub200.records"
        folder.mkdir()
        for path in birds.iterdir():
            os.link(path, folder / path.name)
        said = run("info", folder, "--croissant", cwd=tmp_path).stdout
        (folder / "croissant.json").write_text(said)
        found = Dataset(jsonld=str(folder / "croissant.json"))
        downloads = [each for each in found.operations.operations.nodes if type(each).__name__ == "Download"]
        assert len(downloads) == len(found.metadata.file_objects)
        assert {each.call().filepath.name for each in downloads} == {file.id for file in found.metadata.file_objects}
        assert run("verify", folder, cwd=tmp_path).returncode == 0

    @pytest.mark.slow
    def test_objects_in_images_are_rows_of_any_number(self, tmp_path: Path) -> None:
        write_yolo(tmp_path / "ours")
        found, missing = described(Path(prepared(tmp_path / "ours", workers=1)))
        assert missing == UNKNOWN | {"license", "citeAs"}
        assert fields(found)["labels"] == (["Integer", "Label"], "-1")
        assert fields(found)["boxes"] == (["BoundingBox"], "-1")
        boxes = next(each for each in found.metadata.record_sets[-1].fields if each.name == "boxes")
        assert boxes.description == ("In the shards. Boxes as CXCYWH. Coordinates are fractions of the image's size.")

    def test_masks(self, tmp_path: Path) -> None:
        write_masks(tmp_path / "ours")
        found, _ = described(Path(prepared(tmp_path / "ours", workers=1)))
        assert fields(found)["mask"] == (["SegmentationMask", "ImageObject"], None)

    def test_bytes_have_no_type_there(self, tmp_path: Path) -> None:
        path = write_records(
            tmp_path / "own.records",
            some_values(3, sizes=[24]),
            kind=SetKind.OWN,
            blob=BlobSpec("raw", (2, 3), "<f4"),
            arrays={"flag": np.array([True, False, True])},
            fields={"image": FieldSpec(FieldKind.FLOAT), "flag": FieldSpec(FieldKind.MULTILABEL)},
        )
        found, _ = described(path)
        assert found.metadata.name == "own"
        assert fields(found) == {
            "name": (["Text"], None),
            "flag": (["Boolean", "Label"], None),
            "image": (["Float"], "2,3"),
        }
        assert "image" not in fields(described(write_records(tmp_path / "bytes.records", some_values(2)))[0])

    def test_a_variant_says_so(self, tmp_path: Path) -> None:
        path = write_records(tmp_path / "a.records", some_values(2), dataset="mnist", variant="256-webp")
        found, _ = described(path)
        assert found.metadata.name == "MNIST"
        assert found.metadata.description.endswith("A record set of recordzoo: 2 records, variant 256-webp.")

    @pytest.mark.slow
    def test_at_a_url_addresses_are_absolute(
        self, birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with_own_cache(monkeypatch, tmp_path)
        with FileServer(birds.parent) as server:
            login = server.url.replace("//", "//me:secret@")
            result = run("info", f"{login}/cub200.records", "--croissant", cwd=tmp_path)
        assert "secret" not in result.stdout
        found, _ = read(result.stdout)
        here = to_croissant(RecordReader(birds))["distribution"]
        assert [(each.content_url, each.sha256, each.content_size) for each in found.metadata.file_objects] == [
            (f"{server.url}/cub200.records/{each['name']}", each["sha256"], each["contentSize"]) for each in here[:-1]
        ]


class TestHostileNames:
    NAMES = (*HOSTILE_NAMES, "</script>", "caf\udce9")

    def test_class_names_come_through(self, tmp_path: Path) -> None:
        path = write_records(
            tmp_path / "odd & \u202e.records",
            some_values(2),
            kind=SetKind.LIST,
            arrays={"target": np.arange(2)},
            classes=self.NAMES,
        )
        result = run("info", path, "--croissant", cwd=tmp_path)
        assert result.stdout.isascii()
        assert "<" not in result.stdout
        found, _ = read(result.stdout)
        assert found.metadata.name == "odd & \u202e"
        assert [row["name"] for row in rows(found, "target_classes")] == [*self.NAMES[:-1], "caf\\udce9"]


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


class TestPages:
    @pytest.fixture
    def build_site(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
        """Build a site of two datasets, with the hooks of the real one."""
        monkeypatch.setenv("RECORDZOO_DOCS_FAKES", "0")
        monkeypatch.setattr(catalogue, "names", lambda: ["cub200", "mnist"])
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

        def build_it() -> Path:
            build(load_config(str(tmp_path / "mkdocs.yml")))
            return tmp_path / "site"

        return build_it

    @pytest.mark.slow
    def test_a_page_embeds_the_file_beside_it(self, build_site: Callable[[], Path]) -> None:
        site = build_site()
        for name in catalogue.names():
            beside = (site / "datasets" / f"{name}.croissant.json").read_text()
            assert json.loads(beside) == croissant.document(catalogue.entry(name))
            page = (site / "datasets" / name / "index.html").read_text(encoding="utf-8")
            (embedded,) = Scripts(page).found
            assert embedded.strip() == beside.strip()
            assert page.index("ld+json") < page.index("</head>")
            assert f'<a href="../{name}.croissant.json">Croissant</a>' in page
        assert Scripts((site / "index.html").read_text(encoding="utf-8")).found == []

    def test_a_text_cannot_end_the_script(
        self, build_site: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hostile = {"name": "".join(HOSTILE_NAMES), "description": "</script></head>"}
        monkeypatch.setattr(croissant, "document", lambda entry: hostile)
        (embedded,) = Scripts((build_site() / "datasets" / "mnist" / "index.html").read_text(encoding="utf-8")).found
        assert json.loads(embedded) == hostile


class TestCommand:
    def test_of_a_dataset(self, tmp_path: Path) -> None:
        result = run("info", "cub200", "--croissant", cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        assert json.loads(result.stdout) == croissant.document(catalogue.entry("cub200"))

    @pytest.mark.parametrize("name", ["cub200", "gone.records"])
    def test_not_with_json(self, tmp_path: Path, name: str) -> None:
        result = run("info", name, "--croissant", "--json", cwd=tmp_path)
        assert (result.returncode, result.stdout) == (2, "")
        message = json.loads(result.stderr)["error"]["message"]
        assert message == "--json and --croissant are both given; pass one of them."

    def test_without_torch_and_numpy(self, tmp_path: Path) -> None:
        code = (
            "import sys; from recordzoo import catalogue; from recordzoo.catalogue import croissant; "
            "croissant.document(catalogue.entry('mnist')); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
        )
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
