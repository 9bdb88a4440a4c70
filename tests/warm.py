"""``python -W error -c`` in a process that has torch imported: that takes seconds, which each test would pay.

Nothing of recordzoo is imported before. The process is forked on Linux, and started as usual elsewhere.
"""

import os
import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import forking
from tests.forking import REPOSITORY


def start(
    code: str, *arguments: str, cwd: Path = REPOSITORY, env: Mapping[str, str] | None = None
) -> forking.Forked | forking.Started:
    """Start a program, with arguments for its `sys.argv` and all its environment; its output is read as text."""
    variables = os.environ if env is None else env
    if forking.can_fork():
        return forking.Forked(("tests.warm", "-W", "error"), [code, *arguments], variables, cwd)
    return forking.start([sys.executable, "-W", "error", "-c", code, *arguments], variables, cwd)


# Any: options of `start`.
def run(code: str, *arguments: str, timeout_s: float = 120, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; options as for `start`."""
    with start(code, *arguments, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(arguments, process.wait(), out, err)


def _be_python_c(arguments: list[str]) -> dict[str, Any]:
    """Have the paths, arguments and main module of a Python that was started here with ``-c``; return its names."""
    sys.argv[:] = ["-c", *arguments]
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = ["", *given, *(entry for entry in sys.path[1:] if entry not in given)]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if any((Path(entry) / "sitecustomize.py").exists() for entry in given):
        sys.modules.pop("sitecustomize", None)  # the system's own
        import sitecustomize  # noqa: F401
    return vars(main)


if __name__ == "__main__":
    import torchvision.transforms.v2  # noqa: F401

    program, *others = forking.serve()
    exec(compile(program, "<string>", "exec"), _be_python_c(others))
