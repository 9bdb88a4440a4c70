"""The files with which the project is run: workflows, forms, hooks, version, changelog, links."""

import importlib.util
import re
import shlex
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner

import recordzoo
from recordzoo.records.manifest import VERSION

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "custom.github-workflows-require-timeout": WORKFLOWS,
    "vendor.github-issue-forms": FORMS,
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pyproject():
    return tomllib.loads(text_of("pyproject.toml"))


def jobs():
    """All jobs of all workflows: the workflow, the job's name, the job."""
    found = [(path, yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]) for path in WORKFLOWS]
    return [(path, name, job) for path, each in found for name, job in each.items()]


def commands():
    """All shell commands of all workflows."""
    runs = [step["run"] for _, _, job in jobs() for step in job["steps"] if "run" in step]
    return [shlex.split(line) for run in runs for line in run.splitlines()]


class TestWorkflows:
    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_files_have_their_schema(self, schema):
        assert SCHEMAS[schema]
        result = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", schema, *map(str, SCHEMAS[schema])])
        assert result.exit_code == 0, result.output

    def test_the_auditor_finds_nothing(self):
        """zizmor: actions that are not pinned, too many permissions, code that strangers' text becomes part of."""
        zizmor = shutil.which("zizmor", path=sysconfig.get_path("scripts"))
        words = [zizmor, "--offline", "--no-config", "--quiet", "--format=plain", GITHUB]
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == 0, result.stdout + result.stderr

    def test_the_pythons_are_those_of_the_classifiers(self):
        prefix = "Programming Language :: Python :: 3."
        stated = [line.rpartition(" ")[2] for line in pyproject()["project"]["classifiers"] if line.startswith(prefix)]
        everything = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]["all"]
        assert everything["strategy"]["matrix"]["python"] == stated
        assert everything["steps"][-1]["run"] == "bash .ci/run"
        assert pyproject()["project"]["requires-python"] == f">={stated[0]}"
        assert re.findall(r"^\| (3\.\d+) \| October 20\d\d \|$", text_of("docs/promises.md"), re.MULTILINE) == stated
        named = set(re.findall(r'"(3\.\d+)"', "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)))
        assert named <= set(stated)

    def test_only_a_tag_is_published(self):
        publishing = [
            (path.name, job["if"], job["environment"], job["permissions"])
            for path, _, job in jobs()
            if any("pypi-publish" in step.get("uses", "") for step in job["steps"])
        ]
        assert publishing == [("release.yml", "github.ref_type == 'tag'", "pypi", {"id-token": "write"})]


def test_the_promises_name_the_oldest_torch_and_the_format():
    page = text_of("docs/promises.md")
    oldest = dict(re.findall(r'^  "(\w+)>=([\d.]+)"', text_of("pyproject.toml"), re.MULTILINE))
    assert f"needs torch {oldest['torch']} and torchvision {oldest['torchvision']} or later" in page
    versions = page.partition("| version of the format |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\d+) \|", versions, re.MULTILINE) == [str(n) for n in range(1, VERSION + 1)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_targets_of_pages_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s#]+)", text):
        assert "://" in target or (ROOT / target).exists(), target
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    written = [words for line in re.findall(r"`(make [^`]*)`|^(make .*)$", text, re.MULTILINE) for words in line]
    used = [word for words in written for word in shlex.split(words, comments=True)[1:] if "=" not in word]
    assert set(used) <= targets


def test_the_changelog_is_a_page_whose_links_stay_within_the_site():
    spec = importlib.util.spec_from_file_location("site_project", ROOT / "docs" / "project.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = hooks.changelog()
    assert f"\n## {recordzoo.__version__}" in page
    targets = [target for target in re.findall(r"\]\(([^)\s#]+)", page) if "://" not in target]
    assert "imagenet.md" in targets
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []
