"""Build a release and check it, by hand and in the workflow "Release". Nothing here commits, pushes or publishes.

    python -m tools.release all              # make release: every step below, in order
    python -m tools.release ready            # version, changelog, pages and tag fit together
    python -m tools.release swap             # the pages show how to install from PyPI
    python -m tools.release build            # the sdist and the wheel, into dist/
    python -m tools.release check            # install both in empty environments, and run the demo
    python -m tools.release notes            # the changelog's section of this version, into release-notes.md

`check` needs only this file, which the sdist has: the workflow runs it where there is no checkout.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "Unreleased"
PAGES = ("README.md", "docs/index.md", "docs/install.md")
"""Pages that show how to install recordzoo, between two marks."""
_NEEDS = "recordzoo needs Python 3.11 or later, on Linux."
FORMS = {
    "clone": f"{_NEEDS} It is not on PyPI yet; install it from a clone of the repository:\n\n"
    "```sh\npip install '.[fast]'\n```",
    "pypi": f"{_NEEDS}\n\n```sh\npip install 'recordzoo[fast]'\n```",
}
"""What stands between the marks: until the first release, and from then on."""
BLOCK = re.compile(r"(?<=<!-- install -->\n\n).*?(?=\n\n<!-- /install -->)", re.DOTALL)
_SECTION = re.compile(
    r"^## (?P<name>\S+)(?P<dated> - \d{4}-\d\d-\d\d)?\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)
_WRAPPED = re.compile(r"(?<=\S)\n *(?!```|[-*] |[#|\s])")
"""A line break within a paragraph or an item of a list."""


class ReleaseError(Exception):
    """A step failed; the message says which, and what to do."""


def version(root: Path = ROOT) -> str:
    """Read the version from the only place that has it."""
    return re.search(r'^__version__ = "(.+)"$', _read(root / "recordzoo" / "__init__.py"), re.MULTILINE)[1]


def section(name: str, root: Path = ROOT) -> re.Match[str] | None:
    """Find a section of the changelog; its groups are `name`, `dated` and `text`."""
    return next((each for each in _SECTION.finditer(_read(root / "CHANGELOG.md")) if each["name"] == name), None)


def shown(root: Path = ROOT) -> str:
    """Return which of `FORMS` the pages show.

    Raises:
        ReleaseError: A page shows something else, or the pages differ.
    """
    found = {page: BLOCK.findall(_read(root / page)) for page in PAGES}
    for name, text in FORMS.items():
        if all(blocks == [text] for blocks in found.values()):
            return name
    raise ReleaseError(
        f"{', '.join(PAGES)} differ in how to install recordzoo. Run: python -m tools.release swap --to FORM"
    )


def swap(form: str, root: Path = ROOT) -> None:
    """Show one of `FORMS` on the pages."""
    for page in PAGES:
        text, count = BLOCK.subn(lambda _: FORMS[form], _read(root / page))
        if count != 1:
            raise ReleaseError(
                f"{page} needs one <!-- install --> and one <!-- /install -->, with blank lines between."
            )
        (root / page).write_text(text, encoding="utf-8")


def unready(tag: str | None = None, root: Path = ROOT) -> list[str]:
    """List what keeps this version from being released.

    Args:
        tag: The tag that is being released. The pages must show PyPI then.
        root: The repository.
    """
    number = version(root)
    own, rest = section(number, root), section(UNRELEASED, root)
    heading = f"'## {number} - YEAR-MONTH-DAY'"
    found = []
    if tag is not None and tag != f"v{number}":
        found.append(f"The tag is {tag}, but recordzoo/__init__.py has the version {number}.")
    if own is None or not own["text"].strip():
        found.append(f"CHANGELOG.md has no section {heading}, or it is empty.")
    elif not own["dated"]:
        found.append(f"The section {number} of CHANGELOG.md has no date. Write {heading}.")
    if rest is not None and rest["text"].strip():
        found.append(f"CHANGELOG.md has changes under '{UNRELEASED}'. Move them to the section of a new version.")
    if tag is not None and shown(root) != "pypi":
        found.append("The pages do not show how to install from PyPI. Run `make release`, and commit what it changed.")
    return found


def ready(tag: str | None = None, root: Path = ROOT) -> None:
    """Raise a `ReleaseError` if anything keeps this version from being released."""
    if found := unready(tag, root):
        raise ReleaseError(" ".join(found))


def notes(name: str | None = None, root: Path = ROOT) -> str:
    """Return a section of the changelog as release notes; default: that of this version.

    A host shows each line break of release notes, and has no files for relative links: both are replaced.

    Raises:
        ReleaseError: There is no such section, or it is empty.
    """
    from hatch_build import with_links  # needs hatchling, which `check` does without

    name = name or version(root)
    found = section(name, root)
    if found is None or not found["text"].strip():
        raise ReleaseError(f"CHANGELOG.md has no section '## {name}', or it is empty.")
    urls = tomllib.loads(_read(root / "pyproject.toml"))["project"].get("urls", {})
    return with_links(_WRAPPED.sub(" ", found["text"].strip()), urls, version(root)) + "\n"


def build(dist: Path, root: Path = ROOT) -> list[Path]:
    """Build the sdist, the wheel from the sdist, and check both.

    Returns:
        The wheel and the sdist.

    Raises:
        ReleaseError: A tool refuses them, or the wheel does not have what it should.
    """
    number = version(root)
    sdist, wheel = dist / f"recordzoo-{number}.tar.gz", dist / f"recordzoo-{number}-py3-none-any.whl"
    for old in dist.glob("recordzoo-*"):
        old.unlink()
    hatch = (sys.executable, "-m", "hatchling", "build", "--directory", str(dist.resolve()), "--target")
    _run("build the sdist", *hatch, "sdist", cwd=root)
    with TemporaryDirectory() as scratch, tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
        _run("build the wheel from it", *hatch, "wheel", cwd=Path(scratch) / f"recordzoo-{number}")
    _run(
        "ask twine what the index would say", sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=root
    )
    check_wheel(wheel, root)
    return [wheel, sdist]


def check_wheel(wheel: Path, root: Path = ROOT) -> None:
    """Compare the wheel's files with the package's files in git, and its readme's install line with README.md."""
    listed = subprocess.run(["git", "ls-files", "recordzoo"], cwd=root, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(wheel) as archive:
        about = f"recordzoo-{version(root)}.dist-info/"
        packed = {name for name in archive.namelist() if not name.startswith(about)}
        readme = archive.read(f"{about}METADATA").decode()
    for names, fault in (
        (packed - set(listed.stdout.splitlines()), "has files that are not the package's"),
        (set(listed.stdout.splitlines()) - packed, "has not all files of the package"),
    ):
        if names:
            raise ReleaseError(f"{wheel.name} {fault}: {', '.join(sorted(names)[:5])}")
    if FORMS[shown(root)] not in readme:
        raise ReleaseError(f"The readme of {wheel.name} does not show how to install it as README.md does.")


def check(file: Path, extras: str = "") -> None:
    """Install a wheel or an sdist in an empty environment, and run the demo there.

    Raises:
        ReleaseError: It cannot be installed, a command fails, or the version is not that of the file's name.
    """
    number = re.match(r"recordzoo-(.+?)(?:-py3-none-any\.whl|\.tar\.gz)$", file.name)
    if number is None or not file.is_file():
        raise ReleaseError(f"{file} is not a wheel or an sdist of recordzoo. Build them: python -m tools.release build")
    with TemporaryDirectory(prefix="recordzoo-release-") as scratch:
        environment, empty = Path(scratch) / "environment", Path(scratch) / "empty"
        empty.mkdir()
        _run("make an empty environment", sys.executable, "-m", "venv", environment, cwd=empty)
        # --no-compile: Python compiles what it imports; pip would compile all of torch.
        pip = (environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--no-compile")
        wanted = f"{file.resolve()}[{extras}]" if extras else str(file.resolve())
        _run(f"install {file.name}{f'[{extras}]' if extras else ''} there", *pip, wanted, cwd=empty)
        for words in (["--version"], ["list"], ["info", "imagenet"]):
            title = f"recordzoo {' '.join(words)}"
            printed = _run(title, environment / "bin" / "recordzoo", *words, cwd=empty)
            if words == ["--version"] and printed.strip() != f"recordzoo {number[1]}":
                raise ReleaseError(f"{title} printed {printed.strip()!r}, but the file is {file.name}.")
        _run("examples/demo.py", environment / "bin" / "python", ROOT / "examples" / "demo.py", cwd=empty)


def release(dist: Path, notes_file: Path, *, rehearsal: bool, root: Path = ROOT) -> None:
    """Do every step, and say what is left to do.

    If a step fails, and after a rehearsal, the pages are as before.

    Args:
        dist: Where the sdist and the wheel go.
        notes_file: Where the release notes go.
        rehearsal: The changelog and the version need not be ready; the notes are what is unreleased, if anything is.
        root: The repository.

    Raises:
        ReleaseError: A step failed.
    """
    if changed := _git("status", "--porcelain", root=root):
        files = ", ".join(line[3:] for line in changed.splitlines())
        raise ReleaseError(f"The working tree has changes: {files}. Commit them first.")
    if not rehearsal:
        ready(root=root)
        if _git("tag", "--list", f"v{version(root)}", root=root):
            raise ReleaseError(
                f"The tag v{version(root)} exists already. Set the next version in recordzoo/__init__.py."
            )
    unreleased = section(UNRELEASED, root)
    is_new = rehearsal and unreleased is not None and unreleased["text"].strip()
    text = notes(UNRELEASED if is_new else None, root)
    before = {page: (root / page).read_bytes() for page in PAGES}
    done = False
    try:
        swap("pypi", root)
        for file in build(dist, root):
            check(file)
        notes_file.write_text(text, encoding="utf-8")
        done = True
    finally:
        if rehearsal or not done:
            for page, content in before.items():
                (root / page).write_bytes(content)
    print(f"\nBuilt and checked: {dist}/. Release notes: {notes_file}.")
    print("\n".join(_left(root, rehearsal=rehearsal)))


def _left(root: Path, *, rehearsal: bool) -> list[str]:
    if rehearsal:
        missing = unready(root=root) or ["Nothing: run `make release`."]
        return ["This was a rehearsal; the pages are as before. Before a release:", *(f"- {each}" for each in missing)]
    tag = f"v{version(root)}"
    steps = [
        f"git tag {tag} && git push origin main {tag}",
        "approve the environment `pypi` in the run of the workflow `Release`",
    ]
    if _git("status", "--porcelain", root=root):
        steps.insert(0, f"git commit --all --message 'Release {version(root)}'")
    return ["Left to do:", *(f"{number}. {step}" for number, step in enumerate(steps, 1))]


def _git(*words: str, root: Path) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout


def _run(title: str, *words: str | Path, cwd: Path) -> str:
    """Run a program outside of the checkout's import path, and return what it printed; say how long it took."""
    print(f"== {title}", end=" ", flush=True)
    began = time.monotonic()
    kept = re.compile(r"(?!PYTHONPATH$|PYTHONDONTWRITEBYTECODE$|RECORDZOO_)")
    # In the background, a process would compile after the demo, and write into the environment while it is deleted.
    env = {name: value for name, value in os.environ.items() if kept.match(name)} | {"RECORDZOO_COMPILE": "wait"}
    result = subprocess.run(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(f"({time.monotonic() - began:.0f} s)", flush=True)
    if result.returncode:
        print(result.stdout)
        raise ReleaseError(f"This step failed: {title}. Its output is above.")
    return result.stdout


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    asked = parser().parse_args(arguments)
    try:
        _do(asked)
    except ReleaseError as err:
        print(f"release: {err}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the steps and their options."""
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    steps = made.add_subparsers(dest="step", required=True, metavar="STEP")
    everything = steps.add_parser("all", help="do every step below; publish nothing")
    everything.add_argument("--rehearse", action="store_true", help="before the changelog is ready; the pages stay")
    for_tag = steps.add_parser("ready", help="check that version, changelog, pages and tag fit together")
    for_tag.add_argument("--tag", help="the tag that is released")
    swapping = steps.add_parser("swap", help="show on the pages how to install")
    swapping.add_argument("--to", choices=FORMS, default="pypi", help="from where (default: pypi)")
    building = steps.add_parser("build", help="build the sdist and the wheel, and check what is in them")
    checking = steps.add_parser("check", help="install in an empty environment, and run the demo there")
    checking.add_argument("files", nargs="*", type=Path, metavar="FILE", help="wheels and sdists (default: in --dist)")
    checking.add_argument("--extras", default="", metavar="NAMES", help="extras to install with: fast,parquet")
    writing = steps.add_parser("notes", help="write the release notes")
    writing.add_argument("--section", metavar="NAME", help="section of the changelog (default: this version)")
    for step in (everything, writing):
        step.add_argument("--notes", type=Path, default=Path("release-notes.md"), help="(default: release-notes.md)")
    for step in (everything, building, checking):
        step.add_argument("--dist", type=Path, default=Path("dist"), help="folder of the wheel and the sdist")
    return made


def _do(asked: argparse.Namespace) -> None:
    match asked.step:
        case "all":
            release(asked.dist, asked.notes, rehearsal=asked.rehearse)
        case "ready":
            ready(asked.tag)
        case "swap":
            swap(asked.to)
        case "build":
            build(asked.dist)
        case "check":
            for file in asked.files or sorted(asked.dist.glob("recordzoo-*")):
                check(file, asked.extras)
        case "notes":
            asked.notes.write_text(notes(asked.section), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
