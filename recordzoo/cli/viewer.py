"""Opening a file in the desktop's viewer."""

import os
import sys
from pathlib import Path

import typer

from recordzoo.cli import output
from recordzoo.system.names import PLATFORM


def is_on_desktop() -> bool:
    """Whether the command runs in a terminal on a desktop: its output is not piped, and a viewer would be seen.

    Over SSH there may be a display (``ssh -X``), but a viewer would be slow there: it counts as no desktop.
    """
    if not all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr)):
        return False
    if any(os.environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY")):
        return False
    if PLATFORM in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def open_file(path: Path) -> None:
    """Open a file in the desktop's viewer (``xdg-open``, ``open``, the Windows shell); say it if none starts."""
    if typer.launch(str(path.absolute())) != 0:
        output.say(f"No viewer could be started for {path}. On Linux, xdg-open (package xdg-utils) does it.")
