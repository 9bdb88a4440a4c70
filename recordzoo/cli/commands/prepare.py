"""The command that makes record sets: `prepare`."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from recordzoo.cli.commands.completion import complete_data, complete_path
from recordzoo.cli.commands.options import AcceptTerms, Converters, DryRun, Json, Refresh
from recordzoo.formats import FORMATS
from recordzoo.recipes.imports import LAYOUTS
from recordzoo.recipes.list_columns import TARGET_KINDS


def prepare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|PATH|URL",
            help='Datasets ("imagenet"), parts of one ("imagenet.val"), directories with a folder for each class, '
            "lists of files (.txt, .csv, .tsv, .jsonl, .parquet), other tools' files or addresses (LMDB, TFRecord, "
            "hf://, ...), or record sets, of which a variant is made.",
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
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The record set's own directory. Default: ROOT/NAME.records, or beside own data.",
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
    on_error: Annotated[
        str | None,
        typer.Option(
            metavar="keep|skip|raise",
            help="What to do with an image that no decoder recognises. Default: keep, as it is. Of lists, skip also "
            "leaves out files that are not there.",
        ),
    ] = None,
    check_images: Annotated[
        bool,
        typer.Option("--check-images", help="Decode each image while converting; without it only headers are read."),
    ] = False,
    dry_run: DryRun = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="KIND",
            help="What own data is: classes (every folder is a class), flat (all images, no classes, target -1), list, "
            f"or a format: {', '.join((*LAYOUTS, *FORMATS))}. Default: detected.",
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=FIELD",
            help="Other tools' data: call a key by another name: jpeg=image, class_id=target; may be repeated.",
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Of lists: the column of paths; default: path, image, file, ..."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[:KIND]",
            help=f"Of lists: a column that is a target, and its kind: {', '.join(TARGET_KINDS)}. May be repeated; the "
            "first one is the default target. Default: the column label, or the only one.",
        ),
    ] = None,
    split_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of lists: the column of splits; default: split.")
    ] = None,
    name_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of lists: the column of record names; default: the paths.")
    ] = None,
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
    Nothing that other tools wrote is executed.
    With a side, a format or a quality a variant is made: of the original record set if it is there, which is left as
    it is, and else of the raw data.
    """
    from recordzoo.cli.prepare import Request, prepare_all, read_fields, variant_name
    from recordzoo.cli.sizes import parse_bytes
    from recordzoo.custom.targets import Reading
    from recordzoo.preparing.options import DEFAULTS, Options
    from recordzoo.recipes.list_columns import Columns, read_targets

    options = Options(
        mirror=mirror,
        workers=workers,
        records_dir=output,
        num_shards=shards,
        shard_bytes=None if shard_size is None else parse_bytes("--shard-size", shard_size),
        discard_raw=discard_raw,
        accept_terms=accept_terms,
        check_hash=check_hash,
        on_error=cast(Any, on_error) or DEFAULTS.on_error,  # Any: checked by `Options`
        check_images=check_images,
        refresh=refresh or ("if-changed" if refresh_if_changed else False),
        variant=variant_name(short_side, max_side, format, quality),
    )
    request = Request(
        names,
        root,
        split,
        Reading(
            from_,
            allow_empty,
            read_fields(field or []),
            columns=Columns.of(image, read_targets(target or []), split_column, name_column),
        ),
        shuffle_seed=shuffle,
        dry_run=dry_run,
        dask=dask,
    )
    prepare_all(request, options, as_json=as_json)
