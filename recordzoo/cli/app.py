"""The commands: what each takes and which function does it. What they need is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.exits import MEANINGS


def _exit_code_help() -> str:
    # "\b" keeps click from joining the lines.
    lines = [f"{code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Exit codes:", *lines])


app = typer.Typer(
    name="recordzoo",
    help="Datasets for PyTorch: downloaded, converted once into a few large checked files, read at the disk's speed.",
    epilog=_exit_code_help(),
    rich_markup_mode=None,  # plain text: rich would double the time to the first line
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; errors as JSON on stderr.")]


def _complete(incomplete: str) -> list[str]:
    """Complete the names of datasets and their parts."""
    from recordzoo import catalogue

    entries = [catalogue.entry(name) for name in catalogue.names()]
    names = [*(e.name for e in entries), *(e.label(p.name) for e in entries for p in e.parts if p.name)]
    return [name for name in names if name.startswith(incomplete)]


def _show_version(value: bool) -> None:
    if value:
        from recordzoo import __version__
        from recordzoo.cli.output import put

        put(f"recordzoo {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def recordzoo(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Datasets for PyTorch: downloaded, converted once into a few large checked files, read at the disk's speed."""
    if context.invoked_subcommand is None:
        from recordzoo.cli.output import put

        put(context.get_help())


@app.command("list")
def list_command(
    task: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only those with this word in their task: detection, ...")
    ] = None,
    licence: Annotated[
        str | None, typer.Option(metavar="WORD", help="Only those with this word in their licence: CC BY, MIT, ...")
    ] = None,
    obtained: Annotated[
        str | None,
        typer.Option(metavar="HOW", help="Only those whose files are had so: download, terms, partly, by-hand."),
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Only those whose download is known to be at most so large: 2GB.")
    ] = None,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Only the record sets that are prepared under ROOT, with their sizes.")
    ] = False,
    root: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --prepared: where they are; default: here.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the datasets that can be prepared by name."""
    from recordzoo.cli.listing import Filter, list_datasets, list_prepared
    from recordzoo.errors import ArgumentError

    wanted = Filter.of(task=task, licence=licence, obtained=obtained, max_size=max_size)
    if prepared:
        list_prepared(wanted, root or Path(), as_json)
    elif root is not None:
        raise ArgumentError("--root says where to look for record sets; it needs --prepared.")
    else:
        list_datasets(wanted, as_json)


@app.command(short_help="Show a dataset's facts, or what a record set holds.")
def info(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|PATH",
            help="A dataset; or a record set's directory, or the tree that it was made from.",
            autocompletion=_complete,
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Of a record set: read the headers of all images, not of 2,000 at random.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Show what is known of a dataset: size, splits, files, licence.

    Of a record set: splits, classes, fields, image sizes and formats, bytes, and where it came from.
    """
    from recordzoo.cli.info import show

    return show(name, full=full, as_json=as_json)


@app.command(short_help="Download, convert once, publish the record set.")
def prepare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME|PATH...",
            help='Datasets ("imagenet"), parts of one ("imagenet.val"), directories with a folder for each class, '
            "lists of files (.txt, .csv, .tsv), or record sets, of which a variant is made.",
            autocompletion=_complete,
        ),
    ],
    root: Annotated[
        Path | None,
        typer.Option(
            help="Of datasets: where raw files and record sets are, or go to; default: the current directory.",
            file_okay=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Only this split: the part of a dataset that holds it, or this folder of a tree of splits."),
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Try URL/<dataset>/<file> before the official hosts (RECORDZOO_MIRROR)."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that convert; default: a core each, at most 8.")
    ] = None,
    records_dir: Annotated[
        Path | None,
        typer.Option(
            "--records-dir",
            "--output",
            help="The record set's own directory, instead of ROOT/NAME.records.",
            file_okay=False,
        ),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Exactly how many shards; not of archives, which are read front to back.")
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
        int | None, typer.Option(min=1, help="Store images with at most this short side, as ROOT/NAME-SIDE.records.")
    ] = None,
    max_side: Annotated[
        int | None, typer.Option(min=1, help="Instead: with at most this longest side, as ROOT/NAME-maxSIDE.records.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="jpeg|png|webp|raw",
            help="Image format of the variant; raw stores decoded pixels. Default: jpeg.",
        ),
    ] = None,
    quality: Annotated[
        int | None, typer.Option(min=1, max=100, help="Of the JPEG or WebP that images are stored as; default: 90.")
    ] = None,
    discard_raw: Annotated[
        bool, typer.Option("--discard-raw", help="Afterwards delete the archives that this command downloaded.")
    ] = False,
    accept_terms: Annotated[
        bool, typer.Option("--accept-terms", help="You accept the terms of access of a dataset's files.")
    ] = False,
    check_hash: Annotated[
        bool, typer.Option("--check-hash/--no-check-hash", help="Compare archives with their known hash.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, how large, and where to; do nothing.")
    ] = False,
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
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Rebuild the record set and replace the existing one atomically.")
    ] = False,
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
        names, root, split, TreeOptions(as_classes, flat, allow_empty), shuffle_seed=shuffle, dry_run=dry_run
    )
    prepare_all(request, options, as_json=as_json)


@app.command("import", short_help="Store another tool's LMDB database as a record set.")
def import_command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="An LMDB file, a directory with data.mdb, or TorchRecord's directory of db0/, db1/, ...",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="The record set's directory; default: PATH with .records as its ending.", file_okay=False),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="folder2lmdb|torchrecord|caffe",
            help="Tool that wrote the database (folder2lmdb for Tensorpack). Default: detected.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that convert; default: a core each, at most 8.")
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Rebuild the record set and replace the existing one atomically.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Store an LMDB database of folder2lmdb, Tensorpack, TorchRecord or Caffe as a record set; nothing is executed.

    Run the same command again to go on after any failure or interruption. A record set that is there is left alone.
    """
    from recordzoo.cli.importing import import_databases

    options = {"workers": workers, "refresh": refresh}
    import_databases(path, output, format, options, as_json=as_json)


@app.command()
def verify(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A record set's directory, or the tree that it was made from.")
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Also read every byte: hashes of all files, every record's checksum.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Check whether a record set is whole."""
    from recordzoo.cli.verify import verify_set

    return verify_set(path, full=full, as_json=as_json)


@app.command(short_help="See a record set's images: a contact sheet, or a page.")
def show(
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="A record set's directory, or the tree that it was made from."),
    ],
    split: Annotated[str | None, typer.Option(help="Only images of this split.")] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME|NUMBER", help="Only images of this class; may be repeated."),
    ] = None,
    number: Annotated[
        int | None, typer.Option(min=1, help="How many at most; default: 48 on a sheet, 200 on a page.")
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            metavar="class|random|largest|smallest|broken",
            help="Which: evenly by class, at random, the largest or smallest in bytes, or those that are broken.",
        ),
    ] = "class",
    seed: Annotated[int, typer.Option(min=0, help="Another seed chooses other images.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="The file to write; default: NAME.png or NAME.html here.", dir_okay=False)
    ] = None,
    as_html: Annotated[
        bool, typer.Option("--html", help="Write one self-contained page: larger images, facts, a class filter.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Look for broken images among all, not among 20,000 at random.")
    ] = False,
    font: Annotated[
        Path | None, typer.Option(help="A font file for a sheet with names that are not in Latin letters.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a contact sheet (PNG) of a record set's images with their classes, or a page that a browser shows."""
    from recordzoo.cli.show import ShowOptions, show_images

    options = ShowOptions(split, classes or (), number, seed, order, output, as_html, full, font)
    return show_images(path, options, as_json=as_json)


@app.command(short_help="Measure how fast your images become batches.")
def bench(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A record set's directory, or the tree that it was made from.")
    ],
    split: Annotated[str | None, typer.Option(help="Only images of this split.")] = None,
    transform: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME|FILE.py:NAME",
            help="Your own transforms; default: RandomResizedCrop(224), RandomHorizontalFlip(), PILToTensor().",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images in a batch.", show_default=True)] = 64,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes of DataLoader, threads of RecordLoader; default: a core each.")
    ] = None,
    images: Annotated[
        int, typer.Option(min=1, help="How many images make an epoch, chosen at random.", show_default=True)
    ] = 500,
    repeats: Annotated[int, typer.Option(min=1, help="How often each loader is measured.", show_default=True)] = 5,
    output: Annotated[Path | None, typer.Option(help="Also draw the chart into this PNG file.", dir_okay=False)] = None,
    as_json: Json = False,
) -> int:
    """Measure how fast your images become batches: with ImageFolder if the tree is there, and from its records.

    The loaders take turns, each time in a fresh process: images a second, the first epoch with cold caches, the time to
    the first batch, CPU time and memory. Each number is the median of all rounds; speeds come with the smallest and
    largest, and with a verdict: "faster" or "slower" only if every round says so.
    """
    from recordzoo.cli.bench import bench as run_bench
    from recordzoo.cli.bench import find_task
    from recordzoo.preparing.run import default_workers

    task = find_task(
        path,
        num_images=images,
        split=split,
        transform=transform,
        batch_size=batch_size,
        workers=default_workers() if workers is None else workers,
    )
    return run_bench(task, repeats=repeats, chart=output, as_json=as_json)


@app.command(short_help="For maintainers: ask all addresses of raw files for their sizes.")
def check_sources(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Datasets; default: all.", autocompletion=_complete)
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="How many addresses are asked at once.")] = 8,
    only_bad: Annotated[
        bool, typer.Option("--only-bad", help="Leave out the addresses that are as they should be.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Ask every address of the catalogue's raw files, mirrors included, for its size, and compare.

    Nothing is downloaded. The exit code is 4 if an address is gone, refuses, or has another file.
    """
    from recordzoo.cli.sources import check_sources

    return check_sources(names or (), jobs=jobs, only_bad=only_bad, as_json=as_json)


@app.command(short_help="See it all in about a minute, offline.")
def demo(
    output: Annotated[
        Path, typer.Option(help="Where the demo's files and its contact sheet go.", file_okay=False)
    ] = Path("demo-output"),
) -> int:
    """Show the whole way in about a minute, offline, with generated pictures in CUB-200-2011's layout."""
    from recordzoo.cli.demo.story import run_demo

    return run_demo(output)
