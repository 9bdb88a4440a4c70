"""The command line: ``recordzoo`` and ``python -m recordzoo``. Nothing here is imported by the library."""

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    from recordzoo.base.settings import set_program
    from recordzoo.cli.app import app, run

    set_program(sys.argv[0], sys.executable)
    sys.exit(run(app, sys.argv[1:]))
