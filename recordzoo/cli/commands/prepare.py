"""The commands that make record sets: `prepare`, `import`."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_data, complete_path
from recordzoo.cli.commands.options import AcceptTerms, Converters, DryRun, Json, Refresh
from recordzoo.formats import FORMATS
from recordzoo.recipes.imports import LAYOUTS


def prepare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|PATH",
            help='Datasets ("imagenet"), parts of one ("imagenet.val"), directories with a folder for each class, '
            "lists of files (.txt, .csv, .tsv), or record sets, of which a variant is made.",
            autocompletion=complete_data,
        ),
    ],
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Of datasets: where raw files and record sets are, or go to; default: the current directory.",
            file_okay=False,
            autocompletion=complete_path,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only this split: the part of a dataset that holds it, or this folder of a tree of splits.",
        ),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Try URL/<dataset>/<file> before the official hosts (RECORDZOO_MIRROR)."),
    ] = None,
    workers: Converters = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Convert on the workers of this Dask scheduler (tcp://host:8786, or its scheduler file).",
        ),
    ] = None,
    records_dir: Annotated[
        Path | None,
        typer.Option(
            "--records-dir",
            "--output",
            metavar="DIR",
            help="The record set's own directory, instead of ROOT/NAME.records.",
            file_okay=False,
            autocompletion=complete_path,
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Exactly how many shards; not of archives, which are read front to back."
        ),
    ] = None,
    shard_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Target shard size (512M, 1G). Default: raw size / 8, 64M to 1G; variants: size / 32, 16M to 1G.",
        ),
    ] = None,
    shuffle: Annotated[
        int | None,
        typer.Option(metavar="SEED", help="Lists only: write in a random order; the order of reading is the list's."),
    ] = None,
    short_side: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="PIXELS", help="Store images with at most this short side, as ROOT/NAME-SIDE.records."
        ),
    ] = None,
    max_side: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="PIXELS", help="Instead: with at most this longest side, as ROOT/NAME-maxSIDE.records."
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="jpeg|png|webp|raw",
            help="Image format of the variant; raw stores decoded pixels. Default: jpeg.",
        ),
    ] = None,
    quality: Annotated[
        int | None,
        typer.Option(
            min=1, max=100, metavar="1-100", help="Of the JPEG or WebP that images are stored as; default: 90."
        ),
    ] = None,
    discard_raw: Annotated[
        bool, typer.Option("--discard-raw", help="Afterwards delete the archives that this command downloaded.")
    ] = False,
    accept_terms: AcceptTerms = False,
    check_hash: Annotated[
        bool, typer.Option("--check-hash/--no-check-hash", help="Compare archives with their known hash.")
    ] = True,
    dry_run: DryRun = False,
    as_classes: Annotated[
        bool,
        typer.Option(
            "--as-classes",
            help="Of directories: train/ and val/ are classes of one record set, not splits with one each.",
        ),
    ] = False,
    flat: Annotated[
        bool,
        typer.Option("--flat", help="Of directories: all images in and below them, without classes (target -1)."),
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Of directories: a class may be without images.")
    ] = False,
    refresh: Refresh = False,
    refresh_if_changed: Annotated[
        bool, typer.Option("--refresh-if-changed", help="Rebuild the record set only if raw files have changed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Download what is not there, convert it once, publish the record set.

    Run the same command again to go on after any failure or interruption. A record set that is there is left alone.
    A directory whose only folders are called like splits (train, val, test, ...) becomes one record set for each.
    With a side, a format or a quality a variant is made: of the original record set if it is there, which is left as
    it is, and else of the raw data.
    """
    from recordzoo.cli.prepare import Request, prepare_all, variant_name
    from recordzoo.cli.sizes import parse_bytes
    from recordzoo.cli.targets import TreeOptions

    options = {
        "mirror": mirror,
        "workers": workers,
        "records_dir": records_dir,
        "num_shards": shards,
        "shard_bytes": None if shard_size is None else parse_bytes("--shard-size", shard_size),
        "discard_raw": discard_raw,
        "accept_terms": accept_terms,
        "check_hash": check_hash,
        "refresh": refresh or ("if-changed" if refresh_if_changed else False),
        "variant": variant_name(short_side, max_side, format, quality),
    }
    request = Request(
        names,
        root,
        split,
        TreeOptions(as_classes, flat, allow_empty),
        shuffle_seed=shuffle,
        dry_run=dry_run,
        dask=dask,
    )
    prepare_all(request, options, as_json=as_json)


def import_command(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="What another tool wrote: a file, a directory, or an address.",
            autocompletion=complete_path,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The record set's directory; default: PATH with .records as its ending.",
            file_okay=False,
            autocompletion=complete_path,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"What it is: {', '.join((*LAYOUTS, *FORMATS))}. Default: detected.",
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=FIELD",
            help="Call a key of the tool by another name, such as jpeg=image or class_id=target; may be repeated.",
        ),
    ] = None,
    workers: Converters = None,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Store what another tool wrote as a record set; nothing that is read is executed.

    Run the same command again to go on after any failure or interruption. A record set that is there is left alone.
    """
    from recordzoo.cli.importing import import_foreign, read_fields

    options = {"fields": read_fields(field or []), "workers": workers, "refresh": refresh}
    import_foreign(path, output, format, options, as_json=as_json)
