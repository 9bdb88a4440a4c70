"""The command `doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_path
from recordzoo.cli.commands.options import Json


def doctor(
    root: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Where record sets are, or would be; default: the current directory.",
            show_default=False,
            file_okay=False,
            autocompletion=complete_path,
        ),
    ] = Path(),
    speed: Annotated[
        bool, typer.Option("--speed/--no-speed", help="Try disk and decoder for two seconds.", show_default=False)
    ] = True,
    as_json: Json = False,
) -> int:
    """Look at the installation, the machine and the disk, and say what would help.

    Packages with their versions and the commands that add missing ones; cores, memory, limits of the container; the
    file system of ROOT; proxies (without passwords) and variables. The exit code is 0 unless recordzoo cannot work.
    """
    from recordzoo.cli.doctor.show import show_doctor

    return show_doctor(root, speed=speed, as_json=as_json)
