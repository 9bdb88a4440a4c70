"""docs/errors.md has each error where messages say it is; docs/faults.md quotes what messages say."""

import ast
import re

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from docs.parts import error_facts
from recordzoo import errors as project
from tests.test_docs import ROOT, text_of

ERRORS, FAULTS = text_of("docs/errors.md"), text_of("docs/faults.md")
OURS, FOREIGN = ERRORS.split("\n## Messages of torch, LMDB, Python and Pillow\n")
KINDS = {kind.__name__: kind for kind in error_facts.KINDS}


def test_every_error_has_its_section_and_nothing_else_has():
    assert re.findall(r"^### (.+)\n", OURS, re.MULTILINE) == [*KINDS]


@pytest.mark.slow
def test_the_built_page_has_the_anchors_that_messages_link_to(tmp_path, monkeypatch):
    """The page alone is built, with the site's own settings."""
    monkeypatch.setenv("RECORDZOO_DOCS_FAKES", "0")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "errors.md").write_text(ERRORS, encoding="utf-8")
    config = load_config(
        str(ROOT / "mkdocs.yml"), docs_dir=str(tmp_path / "docs"), site_dir=str(tmp_path / "site"), nav=None, plugins=[]
    )
    build(config)
    site = "https://docs.example.org/zoo"
    monkeypatch.setattr(project, "url", {"Documentation": site}.get)
    linked = [kind("what went wrong").__notes__[0].removeprefix(f"See {site}/").split("#") for kind in KINDS.values()]
    assert {path for path, _ in linked} == {"errors/"}
    page = (tmp_path / "site" / "errors" / "index.html").read_text(encoding="utf-8")
    anchors = [anchor for _, anchor in linked]
    assert re.findall(r'<h3 id="([^"]+)"', page)[: len(anchors)] == anchors


def texts_of_the_package():
    """Every text in the package's sources, with a mark where a value is put in."""
    for path in (ROOT / "recordzoo").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.slow  # every source is parsed
def test_symptoms_quote_what_messages_say():
    texts = list(texts_of_the_package())
    symptoms = [row.split(" | ")[0] for row in FAULTS.splitlines() if row.startswith("| ")]
    quoted = [quote for symptom in symptoms for quote in re.findall(r'"([^"]+)"', symptom)]
    foreign = ["No space left on device", "killed by signal", "ancdata", "Too many open files"]
    foreign.append("cannot import name 'TurboJPEG'")
    assert len(quoted) > 15
    for quote in quoted:
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in quote.split("...")), re.DOTALL)
        assert quote in foreign or any(map(pattern.search, texts)), quote
