"""All commands together: each help ends with examples that work, and the same option reads the same everywhere."""

import shlex
from collections import defaultdict

import pytest
import typer.main

from recordzoo.cli.app import app


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


OWN_HELP = {
    "--root": "what lies there differs: raw files of datasets, record sets, anything that recordzoo wrote",
    "--split": "`prepare` chooses what is stored, the others what is read",
    "--output": "a record set, a picture, a chart, a folder",
    "--full": "of a check all bytes, of a sheet all images",
    "--workers": "of `bench` also threads",
    "--format": "of images, of another tool's database",
}
"""Options whose help may differ between commands, and why."""

OWN_METAVAR = {
    "--output": {"DIR", "FILE"},
    "--format": {"jpeg|png|webp|raw", "folder2lmdb|torchrecord|caffe"},
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
