"""Options and arguments that several commands have, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.completion import complete_data

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; errors as JSON on stderr.")]

RecordSet = Annotated[
    str,
    typer.Argument(
        metavar="NAME|PATH|URL",
        help="A record set's directory or URL, the tree or list that it was made from, or a dataset prepared here.",
        autocompletion=complete_data,
    ),
]

Split = Annotated[str | None, typer.Option(metavar="NAME", help="Only images of this split.")]

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
