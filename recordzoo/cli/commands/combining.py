"""The commands that make a new record set of others: `merge`, `append`, `add-field`, `split` and `subset`."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_data, complete_path
from recordzoo.cli.commands.options import Converters, Json, RecordSet, Refresh

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        metavar="DIR",
        help="The new record set's directory.",
        file_okay=False,
        autocompletion=complete_path,
    ),
]


def merge(
    sets: Annotated[
        list[str],
        typer.Argument(
            metavar="SET...",
            help="Record sets, in this order: directories, URLs, or trees and lists that sets were made from.",
            autocompletion=complete_data,
        ),
    ],
    output: Output,
    classes: Annotated[
        str,
        typer.Option(
            metavar="equal|union",
            help="union: unite classes by name, and number labels anew. Default: the classes must be equal.",
            show_default=False,
        ),
    ] = "equal",
    split_of: Annotated[
        list[str] | None,
        typer.Option(metavar="SET=SPLIT", help="All records of a set are this split of the new one; may be repeated."),
    ] = None,
    workers: Converters = None,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Store the records of several sets, one after another, as one record set.

    The sets must have the same fields, stored alike. Splits of one name are put together. The new set shares the
    shards of the sets by hard links; from URLs and other file systems they are copied. Run the same command again to
    go on after any failure or interruption.
    """
    from recordzoo.cli.combining import merge_sets

    options = {"classes": classes, "workers": workers, "refresh": refresh}
    merge_sets(sets, output, split_of or [], options, as_json=as_json)


Grown = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="DIR",
        help="The new record set's directory. Default: SET is replaced in one step.",
        file_okay=False,
        autocompletion=complete_path,
    ),
]

LocalSet = Annotated[
    str, typer.Argument(metavar="SET", help="The record set, on this machine.", autocompletion=complete_data)
]


def append(
    path: LocalSet,
    more: Annotated[
        str,
        typer.Argument(
            metavar="MORE",
            help="The new records: a record set, or anything that `prepare` takes, such as a directory of images.",
            autocompletion=complete_data,
        ),
    ],
    output: Grown = None,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="The new records are this split. Default: they keep theirs.")
    ] = None,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Add records to a record set.

    MORE must have the same fields, stored alike. New classes come behind the old ones. Shards are shared by hard
    links: only arrays, and new records that were no record set yet, are written. The same command a second time adds
    nothing.
    """
    from recordzoo.cli.combining import append_records

    append_records(path, more, {"output": output, "split": split, "refresh": refresh}, as_json=as_json)


def add_field(
    path: LocalSet,
    values: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The values: a .csv or .tsv with a header, joined by its column `name`, or by position; or a .npy.",
            dir_okay=False,
            autocompletion=complete_path,
        ),
    ],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The new field's name.")],
    output: Grown = None,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Give each record of a set a value of a new field.

    Whole numbers become an int field, numbers with a fraction a float field, texts a class field. Records without a
    value are an error that lists them; names that no record has are listed. Only arrays are written: shards are shared
    by hard links.
    """
    from recordzoo.cli.combining import add_values

    add_values(path, values, name, {"output": output, "refresh": refresh}, as_json=as_json)


def split(
    path: LocalSet,
    val: Annotated[str, typer.Option(metavar="SHARE", help="The share of val: 10%, or 0.1.")],
    by: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Records with the same value of this field stay together."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another number gives another division.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIR",
            help="The new record set's directory. Default: SET-split.records beside the set.",
            file_okay=False,
            autocompletion=complete_path,
        ),
    ] = None,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Divide a record set into the splits train and val, in a new set that shares its shards.

    Each class has the same share of val. A split train is divided and other splits stay; without one, all records that
    are in no split are divided. The same set, share and seed give the same division.
    """
    from recordzoo.cli.combining import divide

    divide(path, val, {"by": by, "seed": seed, "output": output, "refresh": refresh}, as_json=as_json)


def subset(
    path: RecordSet,
    output: Output,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Only these classes, by name or number; they are numbered anew, in this order.",
        ),
    ] = None,
    indices: Annotated[
        str | None,
        typer.Option(
            metavar="LIST|FILE",
            help="Only the records at these places, from 0: 0,5,10-19, or a file with a number a line, or .npy.",
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Only records of this split.")] = None,
    workers: Converters = None,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Store some records of a set as a new record set.

    With several options, a record must fit all of them. Values are copied as they are and their checksums compared.
    Run the same command again to go on after any failure or interruption. In Python, recordzoo.subset() also shows
    some samples of a set without copying them.
    """
    from recordzoo.cli.combining import make_subset, read_indices

    options = {
        "classes": None if classes is None else classes.split(","),
        "indices": None if indices is None else read_indices(indices),
        "split": split,
        "workers": workers,
        "refresh": refresh,
    }
    make_subset(path, output, options, as_json=as_json)
