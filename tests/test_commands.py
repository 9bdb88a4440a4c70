"""All commands together: each help ends with examples that work, and the same option reads the same everywhere."""

import re
import shlex
from collections import defaultdict
from pathlib import Path

import pytest
import typer.main

from recordzoo.cli.app import app
from recordzoo.records.reader import RecordReader
from tests.fakes.records import write_records
from tests.running import run


def leaves(group, before=()):
    """Yield the words and the command of each command that does something."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*before, name))
        else:
            yield (*before, name), command


COMMANDS = dict(leaves(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
class TestExamples:
    def test_each_is_accepted_by_the_command(self, words):
        command = COMMANDS[words]
        marker, head, *examples = command.epilog.splitlines()
        assert (marker, head) == ("\b", "Example:" if len(examples) == 1 else "Examples:")
        for example in examples:
            assert example.startswith("  recordzoo ")
            assert len(example) <= 78
            called = shlex.split(example)[1:]
            assert tuple(called[: len(words)]) == words
            command.make_context("recordzoo", called[len(words) :])  # parses; runs nothing

    def test_there_is_a_summary_that_fits_a_line(self, words):
        command = COMMANDS[words]
        assert command.short_help[0].isupper()
        assert command.short_help.endswith(".")
        assert command.help[0].isupper()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_path_may_begin_at_home(words, monkeypatch):
    """A shell expands ``--root ~/zoo``, and leaves ``--root=~/zoo``."""
    monkeypatch.setenv("HOME", "/home/me")
    command = COMMANDS[words]
    context = command.make_context("recordzoo", shlex.split(command.epilog.splitlines()[2])[1 + len(words) :])
    for parameter in command.params:
        if re.search(r"\b(DIR|FILE|PATH|SET|MORE)\b", parameter.metavar or ""):
            is_list = parameter.nargs == -1 or getattr(parameter, "multiple", False)
            found = parameter.process_value(context, ["~/zoo"] if is_list else "~/zoo")
            assert list(map(str, found if is_list else [found])) == ["/home/me/zoo"], parameter.name


OWN_HELP = {
    "--root": "what lies there differs: raw files of datasets, record sets, anything that recordzoo wrote",
    "--split": "`prepare` chooses what is stored, the others what is read",
    "--output": "a record set, a picture, a chart, a folder",
    "--full": "of a check all bytes, of a sheet all images",
    "--workers": "of `bench` also threads, of copies files at a time",
    "--format": "of images, of another tool's database",
    "--shard-size": "of record sets it depends on the raw data",
    "--seed": "of a sheet which images are drawn, of a split which records",
    "--classes": "of a merge how they are put together, of a subset which are taken",
}
"""Options whose help may differ between commands, and why."""

OWN_METAVAR = {
    "--output": {"DIR", "FILE"},
    "--classes": {"equal|union", "NAME,..."},
}


def test_the_same_option_reads_the_same_everywhere():
    helps, metavars, takes = defaultdict(set), defaultdict(set), defaultdict(set)
    for command in COMMANDS.values():
        for parameter in command.params:
            if parameter.param_type_name != "option":
                continue
            for name in parameter.opts:
                helps[name].add(parameter.help)
                takes[name].add(parameter.is_flag)
                if not parameter.is_flag:
                    assert parameter.metavar, f"{command.name} {name} has no metavar"
                    metavars[name].add(parameter.metavar)
    assert {name: found for name, found in takes.items() if len(found) > 1} == {}
    assert {name: found for name, found in metavars.items() if len(found) > 1} == OWN_METAVAR
    assert {name for name, found in helps.items() if len(found) > 1} <= set(OWN_HELP)


def test_the_field_and_the_array_that_were_meant_are_named(tmp_path):
    reader = RecordReader(write_records(tmp_path / "some.records", [b"one"]))
    with pytest.raises(KeyError, match=r"it has image\. Did you mean image\?"):
        reader.read("imgae", 0)
    with pytest.raises(KeyError, match=r"no array 'targets'; it has .*Did you mean target\?"):
        reader.array("targets")


class TestCompletion:
    """The protocol between shells and typer, as the scripts of `--show-completion` speak it."""

    def complete(self, shell, words, monkeypatch, capsys):
        monkeypatch.setenv("_RECORDZOO_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", words)
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        with pytest.raises(SystemExit):
            app(prog_name="recordzoo")
        return capsys.readouterr().out.split()

    @pytest.fixture(autouse=True)
    def here(self, tmp_path, monkeypatch):
        for name in ("data/photos/cat", "data/.hidden", "mnist2"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "data" / "photos.csv").touch()
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        "command", ["info", "prepare", "verify", "show", "bench", "push", "cache rm", "pull s3://b/x"]
    )
    def test_datasets_and_paths(self, command, monkeypatch, capsys):
        for shell in ("bash", "zsh", "fish") if "s3:" not in command else ():
            found = self.complete(shell, f"recordzoo {command} imagenet.v", monkeypatch, capsys)
            assert "imagenet.val" in " ".join(found).replace('"', "")
        assert self.complete("fish", f"recordzoo {command} da", monkeypatch, capsys) == ["data/"]
        found = self.complete("fish", f"recordzoo {command} data/", monkeypatch, capsys)
        assert found == ["data/photos/", "data/photos.csv"]
        # bash and zsh complete paths themselves if we offer nothing: quoted, and without a space behind.
        assert self.complete("bash", f"recordzoo {command} da", monkeypatch, capsys) == []
        assert self.complete("zsh", f"recordzoo {command} da", monkeypatch, capsys) == ["_files"]

    @pytest.mark.parametrize(
        ("shell", "words", "found"),
        [
            ("bash", "info mn", ["mnist", "mnist2/"]),
            ("fish", "prepare mnist --root da", ["data/"]),
            ("fish", "prepare mnist --output da", ["data/"]),
            ("bash", "cache r", ["rm"]),
            ("bash", "doctor --js", ["--json"]),
        ],
    )
    def test_other_words(self, shell, words, found, monkeypatch, capsys):
        assert self.complete(shell, f"recordzoo {words}", monkeypatch, capsys) == found


def test_the_help_has_commands_and_options_below_headings(tmp_path: Path) -> None:
    helped = run("prepare", "--help", cwd=tmp_path).stdout
    headings = re.findall(r"^(\w[\w ]*):$", run("--help", cwd=tmp_path).stdout, re.MULTILINE)
    assert headings == ["Options", "Every day", "Change", "Move", "Help"]
    sections = dict(re.findall(r"^(\w[\w ]*):\n(.*?)\n\n", helped, re.MULTILINE | re.DOTALL))
    found = re.findall(r"^  (?:-h, )?(--\w[\w-]*)", sections["Options"], re.MULTILINE)
    assert found == ["--dry-run", "--json", "--help"], "a heading of `prepare` does not know the others"
    assert "--target" in sections["Own data"]
    assert "--short-side" in sections["Smaller images"]
