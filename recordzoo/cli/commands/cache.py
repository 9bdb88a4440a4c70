"""The commands of the group `cache`: `ls`, `rm`, `prune`."""

from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_data
from recordzoo.cli.commands.options import DryRun, Json, Roots, Yes


def ls(root: Roots = None, as_json: Json = False) -> int:
    """List what recordzoo wrote: record sets, raw files, cached sets of URLs, and what interrupted work left.

    "USED ABOUT" is the later of the times of the last reading and writing. Many systems note reading once a day, or
    not at all. Raw files are those that recordzoo downloaded; those that came by other means are not listed.
    """
    from recordzoo.cli.cache import list_items

    return list_items(root, as_json=as_json)


def rm(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|PATH|URL",
            help="Record sets, by their name in ROOT or their path; cached sets, by their address; or paths of other "
            "things that `cache ls` lists.",
            autocompletion=complete_data,
        ),
    ],
    root: Roots = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Delete record sets, or other things that recordzoo wrote.

    What is being prepared, downloaded or fetched is not deleted, and no set that holds files of yours.
    """
    from recordzoo.cli.cache import remove_named

    return remove_named(names, root, dry_run=dry_run, yes=yes, as_json=as_json)


def prune(
    sets: Annotated[bool, typer.Option("--sets", help="Choose among record sets.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Choose among raw files whose record sets are prepared.")] = False,
    remote: Annotated[
        bool, typer.Option("--remote", help="Choose among the cached files of record sets at URLs.")
    ] = False,
    builds: Annotated[
        bool, typer.Option("--builds", help="Choose among what interrupted builds and downloads left.")
    ] = False,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only what was last used so long ago: 12h, 30d, 4w.")
    ] = None,
    keep_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Keep what was used last, up to this size in all; delete the rest: 100GB."),
    ] = None,
    root: Roots = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Delete what is old or no longer needed.

    Without --sets, --raw, --remote and --builds, record sets and cached sets are chosen among. A cached set is fetched
    again when it is read; a reader that has it open goes on.
    Record sets that could not be made again are left: their raw data is gone, and cannot be downloaded by anybody.
    `cache rm` deletes them.
    """
    from recordzoo.cli.cache import Rules
    from recordzoo.cli.cache import prune as run_prune
    from recordzoo.cli.sizes import parse_age, parse_bytes

    rules = Rules(
        sets,
        raw,
        remote,
        builds,
        None if older_than is None else parse_age("--older-than", older_than),
        None if keep_size is None else parse_bytes("--keep-size", keep_size),
    )
    return run_prune(root, rules, dry_run=dry_run, yes=yes, as_json=as_json)
