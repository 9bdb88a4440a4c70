"""All commands together: each help ends with examples that work, paths may begin at home, shells complete words."""

import re
import shlex

import pytest
import typer.main

from docs.parts.program import leaf_commands
from recordzoo.cli.app import app
from recordzoo.records.reader import RecordReader
from tests.fakes.records import write_records

COMMANDS = dict(leaf_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_each_example_is_accepted_by_the_command(name):
    command, words = COMMANDS[name], name.split()
    marker, head, *examples = command.epilog.splitlines()
    assert (marker, head) == ("\b", "Example:" if len(examples) == 1 else "Examples:")
    for example in examples:
        assert example.startswith("  recordzoo ")
        assert len(example) <= 78
        called = shlex.split(example)[1:]
        assert called[: len(words)] == words
        command.make_context("recordzoo", called[len(words) :])  # parses; runs nothing


@pytest.mark.parametrize("name", COMMANDS)
def test_every_path_may_begin_at_home(name, monkeypatch):
    """A shell expands ``--root ~/zoo``, and leaves ``--root=~/zoo``."""
    monkeypatch.setenv("HOME", "/home/me")
    command = COMMANDS[name]
    context = command.make_context("recordzoo", shlex.split(command.epilog.splitlines()[2])[1 + len(name.split()) :])
    for parameter in command.params:
        if re.search(r"\b(DIR|FILE|PATH|SET|MORE)\b", parameter.metavar or ""):
            is_list = parameter.nargs == -1 or getattr(parameter, "multiple", False)
            found = parameter.process_value(context, ["~/zoo"] if is_list else "~/zoo")
            assert list(map(str, found if is_list else [found])) == ["/home/me/zoo"], parameter.name


def test_the_field_and_the_array_that_were_meant_are_named(tmp_path):
    reader = RecordReader(write_records(tmp_path / "some.records", [b"one"]))
    with pytest.raises(KeyError, match=r"it has image\. Did you mean image\?"):
        reader.read("imgae", 0)
    with pytest.raises(KeyError, match=r"no array 'targets'; its fields are .*Did you mean target\?"):
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
        # Shells complete paths themselves if we offer nothing: quoted, and without a space behind.
        for shell in ("bash", "fish"):
            assert self.complete(shell, f"recordzoo {command} da", monkeypatch, capsys) == []
        assert self.complete("zsh", f"recordzoo {command} da", monkeypatch, capsys) == ["_files"]

    @pytest.mark.parametrize(
        ("shell", "words", "found"),
        [
            ("bash", "info mn", ["mnist"]),
            ("fish", "prepare mnist --root da", []),
            ("bash", "cache r", ["rm"]),
            ("bash", "doctor --js", ["--json"]),
        ],
    )
    def test_other_words(self, shell, words, found, monkeypatch, capsys):
        assert self.complete(shell, f"recordzoo {words}", monkeypatch, capsys) == found
