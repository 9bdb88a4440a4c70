"""`tools/release.py`: what must fit together before a release, the pages' install lines, the files, the notes."""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.test_project import ROOT, commands, text_of
from tools import release
from tools.release import FORMS, PAGES, ReleaseError, main, notes, ready, shown, swap, unready

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


def pages(root: Path) -> dict[str, bytes]:
    return {page: (root / page).read_bytes() for page in PAGES}


class TestPages:
    def test_all_pages_show_the_same_form(self) -> None:
        assert shown() in FORMS

    def test_no_other_page_tells_how_to_install_recordzoo_itself(self) -> None:
        """Extras, such as `recordzoo[formats]`, are named as they are after the release."""
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
            outside = release.BLOCK.sub("", page.read_text(encoding="utf-8"))
            assert not re.search(r"pip install '?(\.|recordzoo\[fast\]'?$)|not\son\sPyPI", outside, re.MULTILINE), page

    def test_swapping_twice_is_swapping_once_and_swapping_back_gives_the_same_bytes(self, root: Path) -> None:
        swap("clone", root)
        before = pages(root)
        swap("pypi", root)
        swapped = pages(root)
        assert shown(root) == "pypi"
        assert all(b"'recordzoo[fast]'" in text and b"'.[fast]'" not in text for text in swapped.values())
        swap("pypi", root)
        assert pages(root) == swapped
        swap("clone", root)
        assert (shown(root), pages(root)) == ("clone", before)

    def test_a_page_that_differs_is_noticed_and_swapped(self, root: Path) -> None:
        swap("clone", root)
        edit(root / "docs/index.md", FORMS["clone"], FORMS["pypi"])
        with pytest.raises(ReleaseError, match="differ in how to install"):
            shown(root)
        swap("clone", root)
        assert shown(root) == "clone"


class TestReady:
    def test_nothing_is_missing(self, root: Path) -> None:
        swap("pypi", root)
        assert unready(root=root) == unready("v1.2.3", root) == []
        edit(root / "CHANGELOG.md", "## Unreleased\n\n", "")
        ready("v1.2.3", root)

    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            ("## 1.2.3 - 2026-12-24", "## 1.2.4 - 2026-12-24", "has no section '## 1.2.3 - YEAR-MONTH-DAY'"),
            ("## 1.2.3 - 2026-12-24", "## 1.2.3", "The section 1.2.3 of CHANGELOG.md has no date."),
            ("## 1.2.3 - 2026-12-24", "## 1.2.3 - 2026-12-24\n\n## 1.2.2", "or it is empty"),
            ("## Unreleased\n", "## Unreleased\n\n- More.\n", "CHANGELOG.md has changes under 'Unreleased'."),
        ],
    )
    def test_the_changelog(self, root: Path, old: str, new: str, says: str) -> None:
        edit(root / "CHANGELOG.md", old, new)
        (found,) = unready(root=root)
        assert says in found

    def test_the_tag(self, root: Path) -> None:
        swap("pypi", root)
        with pytest.raises(
            ReleaseError, match=r"^The tag is v1\.2\.4, but recordzoo/__init__\.py has the version 1\.2\.3"
        ):
            ready("v1.2.4", root)


class TestNotes:
    def test_they_are_the_section_with_whole_paragraphs_and_no_relative_links(self, root: Path) -> None:
        assert notes(root=root) == (
            "- One change, which takes more than one line; see lists.\n- Another:\n  - a part of it\n\n"
            "A paragraph of two lines.\n"
        )
        assert notes("1.2.2", root) == "- Old.\n"
        with open(root / "pyproject.toml", "a", encoding="utf-8") as file:
            file.write('\n[project.urls]\nSource = "https://example.org/zoo"\n')
        assert "[lists](https://example.org/zoo/blob/v1.2.3/docs/lists.md)" in notes(root=root)

    @pytest.mark.parametrize("name", ["Unreleased", "9.9.9"])
    def test_a_section_that_is_empty_or_missing(self, root: Path, name: str) -> None:
        with pytest.raises(ReleaseError, match=f"no section '## {name}', or it is empty"):
            notes(name, root)


class TestRelease:
    @pytest.fixture
    def checked(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """The files that would have been installed; that takes torch, and so the network."""
        files: list[Path] = []
        monkeypatch.setattr(release, "check", files.append)
        return files

    def run(self, root: Path, *, rehearsal: bool = False) -> None:
        release.release(root / "dist", root / "release-notes.md", rehearsal=rehearsal, root=root)

    def test_changes_that_are_not_committed(self, root: Path) -> None:
        (root / "new.txt").write_text("x")
        with pytest.raises(ReleaseError, match=r"^The working tree has changes: new\.txt\. Commit them first\."):
            self.run(root, rehearsal=True)

    def test_a_changelog_that_is_not_ready(self, root: Path) -> None:
        edit(root / "CHANGELOG.md", " - 2026-12-24", "")
        git(root, "commit", "--all", "--quiet", "--message", "more")
        before = pages(root)
        with pytest.raises(ReleaseError, match="has no date"):
            self.run(root)
        assert pages(root) == before

    @pytest.mark.slow
    def test_a_step_that_fails_leaves_the_pages_as_they_were(self, root: Path) -> None:
        swap("clone", root)
        (root / "pyproject.toml").write_text("[project]\n")
        git(root, "commit", "--all", "--quiet", "--message", "more")
        with pytest.raises(ReleaseError, match=r"^This step failed: build the sdist\. Its output is above\."):
            self.run(root)
        assert (shown(root), git(root, "status", "--porcelain")) == ("clone", "")

    @pytest.mark.slow
    def test_all_steps(self, root: Path, checked: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
        swap("clone", root)
        git(root, "commit", "--all", "--quiet", "--message", "more", "--allow-empty")
        self.run(root)
        assert [path.name for path in checked] == ["recordzoo-1.2.3-py3-none-any.whl", "recordzoo-1.2.3.tar.gz"]
        with zipfile.ZipFile(checked[0]) as wheel:
            assert FORMS["pypi"] in wheel.read("recordzoo-1.2.3.dist-info/METADATA").decode()
        assert (root / "release-notes.md").read_text() == notes("1.2.3", root)
        assert git(root, "status", "--porcelain").split()[1::2] == list(PAGES)
        assert git(root, "tag", "--list") == ""
        assert "1. git commit --all --message 'Release 1.2.3'\n2. git tag v1.2.3 " in capsys.readouterr().out

    @pytest.mark.slow
    def test_a_rehearsal(self, root: Path, checked: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
        edit(root / "CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- New.\n")
        edit(root / "CHANGELOG.md", " - 2026-12-24", "")
        git(root, "commit", "--all", "--quiet", "--message", "more")
        self.run(root, rehearsal=True)
        assert len(checked) == 2
        assert (root / "release-notes.md").read_text() == "- New.\n"
        assert git(root, "status", "--porcelain") == ""
        printed = capsys.readouterr().out
        assert "Before a release:\n- The section 1.2.3 of CHANGELOG.md has no date." in printed
        assert "- CHANGELOG.md has changes under 'Unreleased'." in printed


@pytest.mark.slow
class TestFiles:
    def test_files_that_do_not_belong_and_files_that_are_missing(self, root: Path) -> None:
        (wheel, _) = release.build(root / "dist", root)
        release.check_wheel(wheel, root)
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("tests/test_x.py", "")
        with pytest.raises(ReleaseError, match=r"has files that are not the package's: tests/test_x\.py$"):
            release.check_wheel(wheel, root)
        (wheel, _) = release.build(root / "dist", root)
        (root / "recordzoo" / "py.typed").write_text("")
        git(root, "add", ".")
        with pytest.raises(ReleaseError, match=r"has not all files of the package: recordzoo/py\.typed$"):
            release.check_wheel(wheel, root)

    @pytest.mark.skipif(os.name == "nt", reason="releases are made on Linux")
    def test_what_cannot_be_installed_is_one_clear_line(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (wheel, _) = release.build(root / "dist", root)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        assert main(["check", str(wheel)]) == 1
        assert capsys.readouterr().err == (
            f"release: This step failed: install {wheel.name} there. Its output is above.\n"
        )


def test_the_workflow_runs_these_steps() -> None:
    """With options that exist; steps stand here once."""
    used = [
        words[words.index(word) + 1 :]
        for words in commands()
        for word in words
        if word in ("tools.release", "tools/release.py")
    ]
    assert [release.parser().parse_args(words).step for words in used] == ["ready", "notes", "build", "check"]
    assert not [words for words in commands() if {"twine", "examples/demo.py", "venv"} & set(words)]
    jobs = yaml.safe_load(text_of(".github/workflows/release.yml"))["jobs"]
    assert {name: job.get("permissions") for name, job in jobs.items() if "permissions" in job} == {
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
    }
    assert [name for name, job in jobs.items() if "environment" in job] == ["publish"]
    assert not any("checkout" in step.get("uses", "") for step in jobs["install"]["steps"])
