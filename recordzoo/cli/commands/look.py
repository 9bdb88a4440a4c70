"""The commands that look at a record set: `verify`, `show`, `bench`; and `demo` and `doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from recordzoo.cli.commands.completion import complete_path
from recordzoo.cli.commands.options import AcceptTerms, Json, RecordSet, Split


def verify(
    path: RecordSet,
    full: Annotated[
        bool, typer.Option("--full", help="Also read every byte: hashes of all files, every record's checksum.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Check as --full does, and copy, pull or prepare a damaged set again.")
    ] = False,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="With --repair: where the raw data is (tree, list, or a dataset's root). Default: where it was.",
            autocompletion=complete_path,
        ),
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="With --repair: download missing raw files.")] = False,
    accept_terms: AcceptTerms = False,
    as_json: Json = False,
) -> int:
    """Check whether a record set is undamaged, and repair it.

    Without --full, the contents of the shards are not read. --repair fetches the damaged files of a set that was copied
    or pulled from its original, and prepares any other set again: the same bytes as before, published in one step.
    """
    from recordzoo.cli.verify import RepairOptions, repair_set, verify_set
    from recordzoo.errors import ArgumentError

    if repair:
        return repair_set(path, RepairOptions(root, download, accept_terms), as_json=as_json)
    if root is not None or download or accept_terms:
        raise ArgumentError("--root, --download and --accept-terms say how raw data is found; they need --repair.")
    return verify_set(path, full=full, as_json=as_json)


def show(
    path: RecordSet,
    split: Split = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME|NUMBER", help="Only images of this class; may be repeated."),
    ] = None,
    number: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many at most; default: 48 on a sheet, 200 on a page.")
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            metavar="class|random|largest|smallest|broken",
            help="Which: evenly by class, at random, the largest or smallest in bytes, or those that are broken.",
        ),
    ] = "class",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Another seed chooses other images.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to write; default: NAME.png or NAME.html here.",
            dir_okay=False,
            autocompletion=complete_path,
        ),
    ] = None,
    as_html: Annotated[
        bool, typer.Option("--html", help="Write one self-contained page: larger images, facts, a class filter.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Look for broken images among all, not among 20,000 at random.")
    ] = False,
    font: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A font file for a sheet with names that are not in Latin letters.",
            autocompletion=complete_path,
        ),
    ] = None,
    open_viewer: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the file in the desktop's viewer. Default: in its terminals, but not over SSH or with --json.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a contact sheet (PNG) of a record set's images with their classes, or a page that a browser shows.

    On a desktop the file is also opened in its viewer.
    """
    from recordzoo.cli.show import ShowOptions, show_images

    options = ShowOptions(split, classes or (), number, seed, order, output, as_html, full, font, open_viewer)
    return show_images(path, options, as_json=as_json)


def bench(
    path: RecordSet,
    split: Split = None,
    transform: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME|FILE.py:NAME",
            help="Your own transforms; default: RandomResizedCrop(224), RandomHorizontalFlip(), PILToTensor().",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Images in a batch.", show_default=True)] = 64,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Processes of DataLoader, threads of RecordLoader; default: a core each."
        ),
    ] = None,
    images: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="How many images make an epoch, chosen at random.", show_default=True),
    ] = 500,
    repeats: Annotated[
        int, typer.Option(min=1, metavar="N", help="How often each loader is measured.", show_default=True)
    ] = 5,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw the chart into this PNG file.",
            dir_okay=False,
            autocompletion=complete_path,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Measure how fast your images become batches: with ImageFolder if the tree is there, and from its records.

    The loaders take turns, each time in a fresh process: images a second, the first epoch with cold caches, the time to
    the first batch, CPU time and memory. Each number is the median of all rounds; speeds come with the smallest and
    largest, and with a verdict: "faster" or "slower" only if every round says so.
    """
    from recordzoo.cli.bench import bench as run_bench
    from recordzoo.cli.bench import find_task
    from recordzoo.workers import default_workers

    task = find_task(
        path,
        num_images=images,
        split=split,
        transform=transform,
        batch_size=batch_size,
        workers=default_workers() if workers is None else workers,
    )
    return run_bench(task, repeats=repeats, chart=output, as_json=as_json)


def demo(
    output: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Where the demo's files and its contact sheet go.",
            file_okay=False,
            autocompletion=complete_path,
        ),
    ] = Path("demo-output"),
) -> int:
    """Show the whole way in about a minute, offline, with generated pictures in CUB-200-2011's layout."""
    from recordzoo.cli.demo.story import run_demo

    return run_demo(output)


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
    as_json: Json = False,
) -> int:
    """Check the installation and the disk, and say what would help.

    Packages with their versions and the commands that add missing ones; the file system of ROOT and its free space. The
    exit code is 0 unless recordzoo cannot work.
    """
    from recordzoo.cli.doctor import show_doctor

    return show_doctor(root, as_json=as_json)
