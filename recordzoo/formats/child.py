"""Open untrusted files in a child process first: a library may crash on a damaged file."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import recordzoo
from recordzoo.formats.base import fault

TIME_S = 30.0
"""Time limit per file."""

# Any: the facts that identify a file's state.
_opened: set[tuple[Any, ...]] = set()

_CHILD = """
import importlib, json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
opens = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])
for path in json.loads(sys.stdin.readline()):
    try:
        opens(Path(path))
    except Exception:
        pass
    print(flush=True)
"""


def open_first(module: str, function: str, paths: Sequence[Path]) -> None:
    """Open files in a child process before this process does. Exceptions there are ignored: they occur again here.

    Args:
        module: The name of a module of this package.
        function: The name of a function in `module` that opens a file.
        paths: The files.
    """
    states = {(function, path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths}
    if states <= _opened:
        return
    search = [str(Path(recordzoo.__file__).absolute().parent.parent), *(os.path.abspath(entry) for entry in sys.path)]
    command = [sys.executable, "-I", "-c", _CHILD, json.dumps(search), module, function]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps([os.fspath(path.absolute()) for path in paths]) + "\n")
        child.stdin.flush()
        for path in paths:
            timer = threading.Timer(TIME_S, child.kill)
            timer.start()
            answer = child.stdout.readline()
            timer.cancel()
            if not answer:
                raise fault(path, f" is damaged: the library that reads it crashed, or took more than {TIME_S:.0f} s.")
    _opened.update(states)
