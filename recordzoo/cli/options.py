"""Options and arguments that several commands have, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from recordzoo.cli.completion import complete_data, complete_path


# Any: typer's own class; so, too, below.
def directory_option(help: str, *names: str, **more: Any) -> Any:
    """Return an option that is a directory; `names` where it is not called like its parameter."""
    return typer.Option(*names, metavar="DIR", help=help, file_okay=False, autocompletion=complete_path, **more)


def file_option(help: str, *names: str, **more: Any) -> Any:
    """Return an option that is a file."""
    return typer.Option(*names, metavar="FILE", help=help, dir_okay=False, autocompletion=complete_path, **more)


def data_argument(metavar: str, help: str) -> Any:
    """Return an argument that is a record set, or anything that is prepared."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete_data)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; errors as JSON on stderr.")]

RecordSet = Annotated[
    str,
    data_argument(
        "NAME|PATH|URL",
        "A record set's directory or URL, the tree or list that it was made from, or a dataset prepared here.",
    ),
]

SplitOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only images of this split.")]

Converters = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="Processes that convert. Default: a core each, at most 8; one for less than 16 MiB.",
    ),
]

Refresh = Annotated[
    bool, typer.Option("--refresh", help="Rebuild the record set and replace the existing one atomically.")
]

AcceptTerms = Annotated[
    bool, typer.Option("--accept-terms", help="You accept the terms of access of a dataset's files.")
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and how large; do nothing.")]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal to ask on.")]

Roots = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="DIR",
        help="Look in this directory and two levels below it; may be repeated. Default: where sets were prepared, and "
        "the cache of sets at URLs.",
        file_okay=False,
    ),
]
