"""No command prints or stores the login or signature of an address, whichever of its arguments the address is."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from docs.parts import program
from recordzoo.cli.app import app
from recordzoo.net import url as url_module
from tests.copying import write_set
from tests.fakes.server import FileServer
from tests.running import run

SECRET = "geheim"
LOGIN, QUERY = f"me:{SECRET}-1@", f"?X-Amz-Signature={SECRET}-2"
COMMANDS: dict[str, Any] = dict(program.leaf_commands(typer.main.get_command(app)))  # Any: click's
SLOW_WITH_A_SET = ("bench", "show")


def addresses(host: str) -> list[str]:
    """A record set that is there, a chain of file systems, and addresses of other kinds."""
    return [
        f"http://{LOGIN}{host}/a.records{QUERY}",
        f"simplecache::http://{LOGIN}{host}/a.records{QUERY}",
        f"mongodb://{LOGIN}127.0.0.1:9/base/things{QUERY}",
        f"hf://{LOGIN}datasets/a{QUERY}",
    ]


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Iterator[None]:
    """A cache and state of the test's own."""
    monkeypatch.setenv("RECORDZOO_STATE_DIR", str(tmp_path / "state"))
    yield
    url_module._secrets.clear()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    """A server with one record set; the tests' directory has it, too."""
    write_set(tmp_path / "served" / "a.records")
    write_set(tmp_path / "a.records")
    write_set(tmp_path / "b.records", seed=1)
    with FileServer(tmp_path / "served") as server:
        yield server


def word_lists(command: Any, address: str, here: str) -> Iterator[list[str]]:
    """The command with the address in the place of each argument, option and value, the others as they may be."""
    parameters = [each for each in command.params if each.name != "help"]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    required = [each for each in parameters if each.param_type_name == "option" and each.required]
    plain = {"to": "folder", "output": "made"}
    given = [word for each in required for word in (each.opts[0], plain.get(each.name, here))]
    for number in range(len(arguments) + 1):
        words = [here if place != number else address for place in range(len(arguments))]
        yield [*words, *given]
    yield [address] * len(arguments) + given
    for option in parameters:
        if option.param_type_name == "option" and not option.is_flag:
            yield [here] * len(arguments) + given + [option.opts[0], address]
            yield [address] * len(arguments) + given + [option.opts[0], f"{address}=train"]
    yield [f"--{address}"]


def assert_no_secret(result: Any, folder: Path, words: object) -> None:
    text = f"{result.stdout}{result.stderr}"
    assert SECRET not in text, (words, text)
    for path in folder.rglob("*"):
        assert SECRET not in path.name, (words, path)
        if path.is_file() and not path.is_relative_to(folder / "served"):
            assert SECRET.encode() not in path.read_bytes(), (words, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_tells(name: str, server: FileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "recordzoo"):
        for address in addresses(server.url.partition("://")[2]):
            here = "none.records" if name in SLOW_WITH_A_SET else "a.records"
            for words in word_lists(COMMANDS[name], address, here):
                result = run(*name.split(), *words, cwd=tmp_path)
                assert_no_secret(result, tmp_path, [name, *words])
            result = run(*name.split(), address, "--json", cwd=tmp_path)
            assert_no_secret(result, tmp_path, [name, address, "--json"])
    assert SECRET not in caplog.text
