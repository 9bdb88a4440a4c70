"""The wheel and the sdist: complete, accepted by the index, and of use without the clone."""

import re
import subprocess
import tarfile
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from hatchling import build
from twine.commands.check import check

import recordzoo
from recordzoo import catalogue
from tests.installing import built, install, start

ROOT = Path(__file__).parent.parent
URLS = {"Documentation": "https://docs.example.org/zoo/", "Source": "https://example.org/zoo"}
TAG = f"v{recordzoo.__version__}"


needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an unpacked sdist: git's files are not known here")


def repository_files(*options):
    """The files that git knows; with "--others", those too that it would add."""
    words = ["git", "ls-files", "-z", "--cached", "--exclude-standard", *options]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    return {name for name in found if (ROOT / name).is_file()}


@pytest.mark.parametrize("urls", [{}, URLS], ids=["no home", "a home"])
def test_built_metadata_have_no_relative_link(urls, tmp_path, monkeypatch):
    for name in ("hatch_build.py", "README.md", "LICENSE", "recordzoo/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "urls" not in tomllib.loads(text)["project"], "the home is known now: adapt this test"
    table = "".join(f"{label} = {address!r}\n" for label, address in urls.items())
    (tmp_path / "pyproject.toml").write_text(f"{text}\n[project.urls]\n{table}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    metadata = BytesParser().parsebytes(
        (tmp_path / build.prepare_metadata_for_build_wheel(str(tmp_path)) / "METADATA").read_bytes()
    )
    readme = metadata.get_payload()
    targets = re.findall(r"\]\(([^)\s]*)\)|(?:href|src)=[\"']([^\"']*)", readme)
    relative = [each for pair in targets for each in pair if each and not each.startswith(("https:", "#"))]
    assert relative == []
    assert [line.partition(", ")[2] for line in metadata.get_all("Project-URL", [])] == list(urls.values())
    assert ("https://docs.example.org/zoo/own-data/" in readme) == bool(urls)
    assert (f"https://example.org/zoo/blob/{TAG}/LICENSE" in readme) == bool(urls)
    assert (metadata["Version"], metadata["License-Expression"]) == (recordzoo.__version__, "MIT")
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert "License ::" not in str(metadata.get_all("Classifier"))


@pytest.mark.slow
class TestFiles:
    @pytest.fixture(scope="module")
    @staticmethod
    def dist(tmp_path_factory):
        return built(tmp_path_factory.mktemp("dist"))

    def test_the_index_takes_them(self, dist, capsys):
        assert not check([str(dist.sdist), str(dist.wheel)], strict=True), capsys.readouterr()

    @needs_git
    def test_the_wheel_has_the_whole_package(self, dist):
        with zipfile.ZipFile(dist.wheel) as archive:
            packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert packed == {name for name in repository_files("--others") if name.startswith("recordzoo/")}
        assert {"recordzoo/py.typed", "recordzoo/__init__.pyi"} <= packed
        assert len([name for name in packed if name.endswith(".toml")]) == len(catalogue.names())

    @needs_git
    def test_the_sdist_has_the_whole_repository(self, dist):
        """So it has all that its tests need."""
        with tarfile.open(dist.sdist) as archive:
            packed = {member.name.partition("/")[2] for member in archive if member.isfile()}
        assert repository_files() <= packed
        assert packed - repository_files("--others") <= {"PKG-INFO"}

    def test_the_sdist_installs_without_the_clone(self, dist, tmp_path):
        commands = install(dist.sdist, tmp_path / "empty")
        assert start(commands / "recordzoo", "--version", cwd=tmp_path) == f"recordzoo {recordzoo.__version__}\n"
