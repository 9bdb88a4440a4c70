"""The commands that copy a record set to another place: `copy`, `push` and `pull`."""

from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_data, complete_path
from recordzoo.cli.commands.options import DryRun, Json

Replace = Annotated[
    bool, typer.Option("--replace", help="Replace another record set that is there. Default: that is an error.")
]

Check = Annotated[
    bool,
    typer.Option(
        "--verify", help="Read back every file of the copy and compare its hash, also where the store has one."
    ),
]

Transfers = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Files copied at a time.", show_default=True)
]


def copy(
    path: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PATH|URL",
            help="The record set: its directory or URL, the tree or list that it was made from, or a dataset prepared "
            "here.",
            autocompletion=complete_data,
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DIR|URL",
            help="Its new place: ends in .records, or is the folder in which it keeps its name.",
            autocompletion=complete_path,
        ),
    ],
    replace: Replace = False,
    check: Check = False,
    workers: Transfers = 8,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Copy a record set to another place.

    Every file is compared with the hash in the manifest while it is copied. The copy appears in one step, complete.
    What was copied before an interruption is kept, and the same command goes on from there. From a URL this is
    `pull`, to a URL `push`.
    """
    from recordzoo.cli.transfer import PushOptions, copy_set

    return copy_set(path, destination, PushOptions(replace, check, workers, dry_run), as_json=as_json)


def push(
    path: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PATH",
            help="The record set: its directory, the tree or list that it was made from, or a dataset prepared here.",
            autocompletion=complete_data,
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Where it goes: s3://bucket/photos.records, or a folder there, in which it keeps its name.",
        ),
    ],
    replace: Replace = False,
    check: Check = False,
    workers: Transfers = 8,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Copy a record set to object storage.

    Files are compared with the manifest before they are sent. The manifest goes last: what was not pushed to its end
    is no record set. Files that are there already are not sent again, so the same command goes on after an
    interruption.
    """
    from recordzoo.cli.transfer import PushOptions, push_set

    return push_set(path, destination, PushOptions(replace, check, workers, dry_run), as_json=as_json)


def pull(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The record set: s3://bucket/photos.records, or the folder it is in.")
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="Its new place: ends in .records, or is the folder in which it keeps its name. Default: this one.",
            autocompletion=complete_path,
        ),
    ] = ".",
    replace: Replace = False,
    workers: Transfers = 8,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Copy a record set from object storage to this machine.

    Every file is compared with the hash in the manifest. The record set appears in one step, complete. What was
    fetched before an interruption is kept, and the same command goes on from there.
    """
    from recordzoo.cli.transfer import PullOptions, pull_set

    return pull_set(url, destination, PullOptions(replace, workers, dry_run), as_json=as_json)
