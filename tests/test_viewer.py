"""`recordzoo show` opens what it wrote on a desktop, and only there."""

import io
import os

import pytest
from PIL import Image

from recordzoo.cli import record_set
from tests.fakes.pictures import encoded
from tests.fakes.records import write_records
from tests.preparing import wait_for
from tests.running import run
from tests.terminals import run_on_terminal

DESKTOP = {"DISPLAY": ":7", "WAYLAND_DISPLAY": "", "SSH_CONNECTION": "", "SSH_TTY": ""}


@pytest.fixture
def records(tmp_path):
    image = encoded(Image.new("RGB", (20, 10)), "PNG")
    return write_records(tmp_path / "some.records", [image, image], encoding="image")


@pytest.mark.slow
def test_on_a_desktop_the_file_is_written_said_and_opened(records, tmp_path, monkeypatch):
    notes, program, target = tmp_path / "opened", tmp_path / "bin" / "xdg-open", tmp_path / "--a b.png"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > "{notes}.part"\nmv "{notes}.part" "{notes}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    shown = run_on_terminal("show", records, f"--output={target}", streams=("stdout", "stderr"), columns=200, **DESKTOP)
    assert f"wrote {target}: 2 images" in shown
    wait_for(notes.exists, "the viewer, which runs on its own")
    assert (notes.read_text(), target.exists()) == (f"{target}\n", True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


TERMINAL = {"sys.stdout": Terminal(), "sys.stderr": Terminal()}


@pytest.mark.parametrize(
    ("variables", "platform", "streams", "expected"),
    [
        ({}, "linux", {}, True),
        ({"DISPLAY": "", "WAYLAND_DISPLAY": "wayland-0"}, "linux", {}, True),
        ({"DISPLAY": ""}, "linux", {}, False),
        ({"DISPLAY": ""}, "darwin", {}, True),
        ({"SSH_CONNECTION": "10.0.0.1 22 10.0.0.2 22"}, "linux", {}, False),  # ssh -X
        ({"SSH_TTY": "/dev/pts/1"}, "darwin", {}, False),
        *(({}, "linux", {stream: other}, False) for stream in TERMINAL for other in (io.StringIO(), None)),
    ],
)
def test_what_is_a_desktop(monkeypatch, variables, platform, streams, expected):
    """A terminal that is neither piped nor closed, on a machine with a display of its own."""
    for name, value in {**DESKTOP, **variables}.items():
        monkeypatch.setenv(name, value)
    for name, value in {**TERMINAL, **streams, "recordzoo.cli.record_set.PLATFORM": platform}.items():
        monkeypatch.setattr(name, value)
    assert record_set.is_on_desktop() is expected


@pytest.mark.parametrize(
    ("options", "on_desktop", "expected"),
    [([], True, True), (["--no-open"], True, False), (["--open"], False, True), (["--json"], True, False)],
)
def test_when_a_viewer_is_started(records, tmp_path, monkeypatch, options, on_desktop, expected):
    started = []
    monkeypatch.setattr("recordzoo.cli.record_set.is_on_desktop", lambda: on_desktop)
    monkeypatch.setattr("typer.launch", lambda path: started.append(path) or 0)
    assert run("show", records, *options, cwd=tmp_path).returncode == 0
    assert started == [str(tmp_path / "some.png")] * expected
    assert (tmp_path / "some.png").exists()


def test_a_viewer_that_does_not_start_is_said_and_the_file_is_there(records, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(record_set, "PLATFORM", "linux")
    result = run("show", records, "--open", cwd=tmp_path)
    assert (result.returncode, result.stdout, (tmp_path / "some.png").exists()) == (0, "", True)
    for text in ("wrote some.png: 2 images", "No viewer could be started for some.png."):
        assert text in result.stderr
