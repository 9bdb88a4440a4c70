"""`tools/release.py`: what must fit together before a release, the pages' install lines, the files, the notes."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.test_project import ROOT, commands
from tools import release
from tools.release import FORMS, PAGES, ReleaseError, notes, ready, shown, swap

CHANGELOG = """# Changes

## Unreleased

## 1.2.3 - 2026-12-24

- One change, which takes more
  than one line; see [lists](docs/lists.md).
- Another:
  - a part of it

A paragraph
of two lines.

## 1.2.2 - 2026-12-01

- Old.
"""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def git(folder: Path, *words: str) -> str:
    named = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *named, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of a small package that is ready to be released."""
    root = tmp_path / "repository"
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE", ".gitignore", *PAGES):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "recordzoo").mkdir()
    (root / "recordzoo" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "all")
    return root


def test_all_pages_show_the_same_form() -> None:
    assert shown() in FORMS


def test_a_page_that_differs_is_noticed_and_swapped(root: Path) -> None:
    swap("clone", root)
    edit(root / "docs/index.md", FORMS["clone"], FORMS["pypi"])
    with pytest.raises(ReleaseError, match="differ in how to install"):
        shown(root)
    swap("clone", root)
    assert shown(root) == "clone"


def test_what_is_ready_and_what_is_not(root: Path) -> None:
    swap("pypi", root)
    ready("v1.2.3", root)
    with pytest.raises(ReleaseError, match=r"^The tag is v1\.2\.4, but .* has the version 1\.2\.3"):
        ready("v1.2.4", root)
    edit(root / "CHANGELOG.md", "## 1.2.3 - 2026-12-24", "## 1.2.4 - 2026-12-24")
    with pytest.raises(ReleaseError, match="has no section"):
        ready("v1.2.3", root)


def test_notes_are_the_section_with_whole_paragraphs_and_no_relative_links(root: Path) -> None:
    assert notes(root=root) == (
        "- One change, which takes more than one line; see lists.\n- Another:\n  - a part of it\n\n"
        "A paragraph of two lines.\n"
    )
    assert notes("1.2.2", root) == "- Old.\n"
    with pytest.raises(ReleaseError, match="no section '## Unreleased', or it is empty"):
        notes("Unreleased", root)


@pytest.mark.slow
def test_all_steps(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    checked: list[Path] = []
    monkeypatch.setattr(release, "check", checked.append)  # it installs them, which takes torch, and so the network
    swap("clone", root)
    git(root, "commit", "--all", "--quiet", "--message", "more", "--allow-empty")
    release.release(root / "dist", root / "release-notes.md", rehearsal=False, root=root)
    assert [path.name for path in checked] == ["recordzoo-1.2.3-py3-none-any.whl", "recordzoo-1.2.3.tar.gz"]
    with zipfile.ZipFile(checked[0]) as wheel:
        assert FORMS["pypi"] in wheel.read("recordzoo-1.2.3.dist-info/METADATA").decode()
    assert (root / "release-notes.md").read_text() == notes("1.2.3", root)
    assert git(root, "status", "--porcelain").split()[1::2] == list(PAGES)
    assert git(root, "tag", "--list") == ""
    assert "1. git commit --all --message 'Release 1.2.3'\n2. git tag v1.2.3 " in capsys.readouterr().out


def test_the_workflow_runs_these_steps() -> None:
    """With options that exist; steps stand here once."""
    names = ("tools.release", "tools/release.py")
    used = [words[words.index(word) + 1 :] for words in commands() for word in words if word in names]
    assert [release.parser().parse_args(words).step for words in used] == ["ready", "notes", "build", "check"]
    assert not [words for words in commands() if {"twine", "examples/demo.py", "venv"} & set(words)]
