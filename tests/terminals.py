"""Pseudo-terminals: what this process, or a command in a process of its own, draws on a terminal of some width."""

import contextlib
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from tests.preparing import REPOSITORY


@contextlib.contextmanager
def _terminal(columns: int, drawn: bytearray, typed: str = "") -> Iterator[int]:
    """Open a terminal; yield its descriptor, for the block to write to, and collect what is written in `drawn`.

    Args:
        typed: Input that is typed before the block runs: the terminal echoes it, and the block can read it.
    """
    import pty  # these are absent on Windows
    import termios
    from fcntl import ioctl

    outer, inner = pty.openpty()
    os.write(outer, typed.encode())
    ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def read() -> None:
        with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
            while piece := os.read(outer, 1 << 16):
                drawn.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield inner
    finally:
        os.close(inner)
        reader.join()
        os.close(outer)


def drawn_by(work: Callable[[], None], columns: int = 80) -> str:
    """Call a function while stderr is a terminal; return what it drew there."""
    drawn = bytearray()
    with (
        _terminal(columns, drawn) as inner,
        open(inner, "w", encoding="utf-8", closefd=False) as stream,
        contextlib.redirect_stderr(stream),
    ):
        work()
    return drawn.decode()


def run_on_terminal(
    *words: object,
    columns: int = 80,
    streams: Sequence[str] = ("stdout",),
    typed: str = "",
    options: Sequence[str] = ("-m", "recordzoo"),
    **environment: str,
) -> str:
    """Run a command of recordzoo on a terminal, and return what it showed there, with "\\n" for line ends.

    Args:
        words: Its arguments.
        columns: The terminal's width.
        streams: What goes to the terminal: "stdout", "stderr" or both.
        typed: The answers to its questions; it then reads from the terminal.
        options: Python's own arguments: another program, with "-c".
        **environment: Variables for the command.
    """
    drawn = bytearray()
    variables = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    with _terminal(columns, drawn, typed) as inner:
        done = subprocess.run(
            [sys.executable, *options, *map(str, words)],
            env={**variables, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", **environment},
            stdin=inner if typed else subprocess.DEVNULL,
            stdout=inner if "stdout" in streams else subprocess.DEVNULL,
            stderr=inner if "stderr" in streams else subprocess.PIPE,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, (done.stderr, drawn)
    return drawn.decode().replace("\r\n", "\n")
