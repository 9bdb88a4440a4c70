"""`prepare`: find the record sets of names and paths, say what would be done, and prepare each."""

import contextlib
import dataclasses
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from recordzoo.base.progress import close_bars, format_bytes, format_seconds
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, clean, counted, name_first, quote
from recordzoo.cli import options as printed
from recordzoo.cli.app import exit_code
from recordzoo.cli.options import (
    AcceptTerms,
    Converters,
    DryRun,
    Json,
    Refresh,
    data_argument,
    directory_option,
    flag,
    option,
    parse_bytes,
    path_option,
    refuse_urls,
)
from recordzoo.errors import ArgumentError, FolderError, RecordZooError, TermsError
from recordzoo.formats import NAMES
from recordzoo.own.columns import TARGET_KINDS, Columns, read_targets
from recordzoo.own.targets import WHAT, Reading, Target, check_made, check_reading, completed, make, resolve

if TYPE_CHECKING:
    from recordzoo.preparing.options import Options
    from recordzoo.preparing.preparation import Outlook, Preparation
    from recordzoo.records.reader import RecordReader

_CHANGES_SHOWN, _CLASSES_SHOWN = 3, 5
_SHARD = re.compile(r"\.(tar|tfrecords?|parquet|arrow)\b", re.IGNORECASE)

_STATES = {
    "missing": "there is no raw data, and nowhere to get it from",
    "ready": "ready in {target}; nothing to do",
    "changed": "ready in {target}, but raw files have changed since ({changes}); --refresh rebuilds it",
    "resume": "goes on with an interrupted preparation: {source} ({raw}) to {target}; peak of disk {peak}",
    "convert": "converts {source} ({raw}) to {target}; peak of disk {peak}",
    "download": "downloads and converts {source} ({raw}) to {target}; peak of disk {peak}",
}
_SOURCES = {
    "there": "{size}, there already: {path}",
    "download": "{size}, downloaded from {url}",
    "by hand": "{size}, to be downloaded by hand to {path}",
    "terms": "{size}, to be downloaded by hand to {path}, or with --accept-terms",
}


def show_plans(wanted: Sequence[Target], options: "Options", as_json: bool) -> None:
    """Print what `prepare` would do, and do nothing.

    Raises:
        FolderError: A tree has no classes.
        OtherSourceError: An existing record set is not what was asked for.
    """
    from recordzoo.preparing.preparation import Preparation

    outlooks = []
    for target in wanted:
        with explained(target):
            outlooks.append((target, Preparation(target.recipe(), target.root, options).outlook()))
    for target, outlook in outlooks:
        if outlook.state == "ready":
            check_made(target, outlook.preparation.target, was_ready=True, full=True)
    if as_json:
        plans = [
            {"name": target.label, **outlook.to_json(), "must_be_fetched_by_hand": outlook.obstacle is not None}
            for target, outlook in outlooks
        ]
        printed.put_json({"dry_run": True, "plans": plans})
        return
    for target, outlook in outlooks:
        obstacle = f"; {needs(outlook.obstacle)}" if outlook.obstacle else ""
        printed.put(clean(f"{target.label}: {_summary(outlook)}") + obstacle)
        for line in _details(outlook):
            printed.put(clean(f"  {line}"))


def needs(obstacle: RecordZooError) -> str:
    """Describe what the user must do before a record set can be prepared."""
    by_hand = "its files must be downloaded by hand"
    return f"{by_hand}, or need --accept-terms" if isinstance(obstacle, TermsError) else by_hand


def _summary(outlook: "Outlook") -> str:
    return _STATES["changed" if outlook.changes else outlook.state].format(
        changes=name_first(outlook.changes, _CHANGES_SHOWN),
        source=outlook.source,
        target=outlook.preparation.target,
        raw=_bytes(outlook.raw_bytes),
        peak=_bytes(outlook.peak_bytes),
    )


def _details(outlook: "Outlook") -> Iterator[str]:
    """Yield a line for each raw file, and one for the room; nothing where there is nothing to do."""
    if outlook.state in ("ready", "missing"):
        return
    for source in outlook.sources:
        text = _SOURCES[source["state"]].format(size=_bytes(source["bytes"]), **source)
        yield f"{source['name']}: {text}{' (not necessary)' if source['optional'] else ''}"
    free, needed = format_bytes(outlook.free_bytes), outlook.needed_bytes
    if needed is None:
        yield f"space: how much is needed is not known; {free} are free"
    else:
        short = needed - outlook.free_bytes
        lacking = f": {format_bytes(short)} too little" if short > 0 else ""
        yield f"space: about {format_bytes(needed)} needed, {free} free{lacking}"


def _bytes(value: int | None) -> str:
    return "size not known" if value is None else format_bytes(value)


@contextlib.contextmanager
def explained(target: Target) -> Iterator[None]:
    """Add the option that helps to errors of a directory of images."""
    try:
        yield
    except FolderError as err:
        text = str(err)
        if target.kind in ("tree", "flat") and not target.root.exists():
            text = f"{target.label} does not exist, so its record set cannot be made."
        elif "classes" in err.details:
            text = f"{text.rstrip('. ')}. Remove these folders, or pass --allow-empty."
        if target.split_of:
            # in front, because the text may end with a command
            as_class = command("prepare", target.split_of, "--from", "classes")
            text = f"{target.label} is taken as a split (as a class: {as_class}). {text}"
        raise FolderError(text, **err.details) from err


def prepare(
    names: Annotated[
        list[str],
        data_argument(
            "NAME|PATH|URL",
            'Datasets ("imagenet"), parts of one ("imagenet.val"), directories with a folder for each class, or '
            "of images with COCO, YOLO or mask annotations, lists of files (.txt, .csv, .tsv, .jsonl, .parquet), other "
            "tools' files or addresses (LMDB, TFRecord, hf://, ...), or record sets, of which a variant is made.",
        ),
    ],
    root: Annotated[
        Path | None,
        directory_option("Of datasets: where raw files and record sets are, or go to; default: the current directory."),
    ] = None,
    split: Annotated[
        str | None,
        option("NAME", "Only this split: the part of a dataset that holds it, or this folder of a tree of splits."),
    ] = None,
    mirror: Annotated[
        str | None, option("URL", "Try URL/<dataset>/<file> before the official hosts (RECORDZOO_MIRROR).")
    ] = None,
    workers: Converters = None,
    dask: Annotated[
        str | None,
        option("ADDRESS", "Convert on the workers of this Dask scheduler (tcp://host:8786, or its scheduler file)."),
    ] = None,
    output: Annotated[
        Path | None, directory_option("The record set's own directory. Default: ROOT/NAME.records, or beside own data.")
    ] = None,
    shards: Annotated[
        int | None, option("N", "Exactly how many shards; not of archives, which are read front to back.", min=1)
    ] = None,
    shard_size: Annotated[
        str | None,
        option(
            "SIZE", "Target shard size (512M, 1G). Default: raw size / 8, 64M to 1G; variants: size / 32, 16M to 1G."
        ),
    ] = None,
    shuffle: Annotated[
        int | None, option("SEED", "Lists only: write in a random order; the order of reading is the list's.")
    ] = None,
    short_side: Annotated[
        int | None, option("PIXELS", "Store images with at most this short side, as ROOT/NAME-SIDE.records.", min=1)
    ] = None,
    max_side: Annotated[
        int | None, option("PIXELS", "Instead: with at most this longest side, as ROOT/NAME-maxSIDE.records.", min=1)
    ] = None,
    format: Annotated[
        str | None,
        option("jpeg|png|webp|raw", "Image format of the variant; raw stores decoded pixels. Default: jpeg."),
    ] = None,
    quality: Annotated[
        int | None, option("1-100", "Of the JPEG or WebP that images are stored as; default: 90.", min=1, max=100)
    ] = None,
    discard_raw: Annotated[
        bool, flag("--discard-raw", "Afterwards delete the archives that this command downloaded.")
    ] = False,
    accept_terms: AcceptTerms = False,
    check_hash: Annotated[bool, flag("--check-hash/--no-check-hash", "Compare archives with their known hash.")] = True,
    incomplete: Annotated[bool, flag("--allow-incomplete", "Store raw data in which classes are missing.")] = False,
    on_error: Annotated[
        str | None,
        option(
            "keep|skip|raise",
            "What to do with an image that no decoder recognises. Default: keep, as it is. Of lists, skip also "
            "leaves out files that are not there.",
        ),
    ] = None,
    check_images: Annotated[
        bool, flag("--check-images", "Decode each image while converting; without it only headers are read.")
    ] = False,
    dry_run: DryRun = False,
    from_: Annotated[
        str | None,
        option(
            "KIND",
            "What own data is: classes (every folder is a class), flat (all images, no classes, target -1), coco, "
            f"yolo, voc, masks, list, or a format: {', '.join(NAMES)}. Default: detected.",
            "--from",
        ),
    ] = None,
    field: Annotated[
        list[str] | None,
        option(
            "KEY=FIELD", "Other tools' data: call a key by another name: jpeg=image, class_id=target; may be repeated."
        ),
    ] = None,
    allow_paths: Annotated[
        bool, flag("--allow-paths", "Lists, other tools' data: read files to which paths in it lead, also elsewhere.")
    ] = False,
    annotations: Annotated[
        str | None, path_option("FILE", "Of images with COCO JSON: the one file to read; default: all of instances.")
    ] = None,
    exif: Annotated[
        str,
        option("HOW", "Of images with annotations: turn them by their EXIF orientation when they are read, or keep."),
    ] = "turn",
    list_: Annotated[
        str | None,
        path_option("FILE", "Of MongoDB: a JSON with path_list and label_list, which say order and labels.", "--list"),
    ] = None,
    image: Annotated[
        str | None, option("COLUMN", "Of lists: the column of paths; default: path, image, file, ...")
    ] = None,
    target: Annotated[
        list[str] | None,
        option(
            "COLUMN[:KIND]",
            f"Of lists: a column that is a target, and its kind: {', '.join(TARGET_KINDS)}. May be repeated; the "
            "first one is the default target. Default: the column label, or the only one.",
        ),
    ] = None,
    split_column: Annotated[str | None, option("COLUMN", "Of lists: the column of splits; default: split.")] = None,
    name_column: Annotated[
        str | None, option("COLUMN", "Of lists: the column of record names; default: the paths.")
    ] = None,
    image_dir: Annotated[
        Path | None, directory_option("Of lists: the directory of the images; default: the list's.")
    ] = None,
    image_suffix: Annotated[
        str | None, option("SUFFIX", "Of lists: what paths lack at their end: .png for ids.")
    ] = None,
    separator: Annotated[
        str | None, option("TEXT", "Of lists: what stands between several labels; default: a comma.")
    ] = None,
    allow_empty: Annotated[bool, flag("--allow-empty", "Of directories: a class may be without images.")] = False,
    refresh: Refresh = False,
    refresh_if_changed: Annotated[
        bool, flag("--refresh-if-changed", "Rebuild the record set only if raw files have changed.")
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
    from recordzoo.preparing.options import DEFAULTS, Options  # imports NumPy, as do other imports in functions here

    options = Options(
        mirror=mirror,
        workers=workers,
        records_dir=output,
        num_shards=shards,
        shard_bytes=None if shard_size is None else parse_bytes("--shard-size", shard_size),
        discard_raw=discard_raw,
        accept_terms=accept_terms,
        check_hash=check_hash,
        incomplete=incomplete,
        on_error=cast(Any, on_error) or DEFAULTS.on_error,  # Any: checked by `Options`
        check_images=check_images,
        refresh=refresh or ("if-changed" if refresh_if_changed else False),
        variant=_variant_name(short_side, max_side, format, quality),
    )
    folder = None if image_dir is None else str(image_dir.absolute())
    columns = Columns(
        image=image,
        targets=read_targets(target or ()),
        split=split_column,
        name=name_column,
        folder=folder,
        suffix=image_suffix,
        separator="," if separator is None else separator,
    )
    reading = Reading(
        from_,
        allow_empty,
        _read_fields(field or []),
        columns=columns,
        allow_paths=allow_paths,
        annotations=annotations,
        exif=cast(Any, exif),  # Any: checked by `Reading`
        list_=list_,
    )
    refuse_urls("--root", root)
    refuse_urls("--output", output)
    wanted = [
        completed(each, shuffle, options)
        for name in names
        for each in resolve(name, root or Path(), split, reading, output)
    ]
    _check_usage(wanted, options, root, dask)
    check_reading(wanted, reading)
    if output is not None and len(wanted) > 1:
        sets = ", ".join(each.label for each in wanted)
        raise ArgumentError(
            f"--output names one record set, but {len(wanted)} are asked for: {sets}. Prepare them one "
            "by one, or leave it out."
        )
    if split is None:
        _say_splits(wanted)
    if dry_run:
        show_plans(wanted, options, as_json)
    else:
        _prepare_all(wanted, options, dask, as_json=as_json)


def _prepare_all(wanted: Sequence[Target], options: "Options", dask: str | None, *, as_json: bool) -> None:
    """Prepare one after another, even if some fail; then raise the first error."""
    cluster: Any = contextlib.nullcontext()  # Any: of None, or of an executor
    if dask is not None:
        from recordzoo.preparing.workers import dask_executor

        cluster = dask_executor(dask)
    done: list[dict[str, Any]] = []  # Any: JSON
    failed: dict[str, Exception] = {}
    with cluster as executor:  # connected before anything is downloaded
        for target in wanted:
            try:
                done.append(_prepare(target, dataclasses.replace(options, executor=executor)))
            except BrokenPipeError:
                raise
            except Exception as err:
                if len(wanted) == 1:
                    raise
                close_bars()
                failed[target.label] = err
                reason = needs(err) if isinstance(err, TermsError) else str(err).partition("\n")[0].rstrip(".")
                printed.say(f"{target.label}: failed: {clean(reason or type(err).__name__)}.")
    if as_json:
        document: dict[str, JSON] = {"record_sets": done}
        if failed:
            document["failed"] = [
                {"name": label, "code": int(exit_code(err)), "type": type(err).__name__, "message": str(err)}
                for label, err in failed.items()
            ]
        printed.put_json(document)
    if len(wanted) > 1:
        names = ", ".join(each["name"] for each in done)
        printed.say(f"{len(done)} of {len(wanted)} record sets are ready{': ' if done else ''}{names}.")
    if failed:
        raise next(iter(failed.values()))


def _check_usage(wanted: Sequence[Target], options: "Options", root: Path | None, dask: str | None) -> None:
    """Refuse options that no target takes, shards one by one, --root with a path, and --workers with --dask."""
    if dask is not None and options.workers is not None:
        raise ArgumentError(
            f"--workers {options.workers} is for processes of this machine, and --dask {dask} converts on "
            "that cluster's workers, however many there are. Pass one of them."
        )
    own = [target for target in wanted if target.entry is None]
    if root is not None and own:
        first = own[0]
        raise ArgumentError(
            f"--root {root} is for datasets, and {first.label} is {WHAT[first.kind]}: its record set lies "
            f"beside it. For another place, pass --output {root / first.root.name}.records."
        )
    _refuse_shards([target.root for target in own if target.kind == "foreign"])
    for_datasets = {
        "--mirror": options.mirror is not None,
        "--accept-terms": options.accept_terms,
        "--discard-raw": options.discard_raw,
        "--no-check-hash": not options.check_hash,
        "--allow-incomplete": options.incomplete,
    }
    for name, is_given in for_datasets.items():
        if is_given and len(own) == len(wanted):
            raise ArgumentError(f"{name} is for datasets, and {own[0].label} is {WHAT[own[0].kind]}.")


def _refuse_shards(paths: Sequence[Path]) -> None:
    """Refuse shards that are given one by one, as a shell does for ``shards/*.tar``: are they one set, or many?"""
    alike: dict[str, list[Path]] = defaultdict(list)
    for path in filter(_SHARD.search, map(str, paths)):
        alike[re.sub(r"\d+", "", path)].append(Path(path))
    for first, *others in alike.values():
        if others:
            raise ArgumentError(
                f"{first} and {counted(len(others), 'other file')} have the same name except for the number: shards of "
                f"one set? For one record set, pass {first.parent}, or a range in quotes: "
                "'train-{000..012}.tar'. For a record set of each, prepare them one by one."
            )


def _say_splits(wanted: Sequence[Target]) -> None:
    """Tell the user about trees whose folders are all taken as splits."""
    for tree in dict.fromkeys(target.split_of for target in wanted if target.split_of):
        names = ", ".join(target.root.name for target in wanted if target.split_of == tree)
        printed.say(
            f"{tree} has splits and no classes ({names}): each is a record set of its own. For one record set with "
            f"these as its classes, run: {command('prepare', tree, '--from', 'classes')}"
        )


def _read_fields(words: Sequence[str]) -> dict[str, str]:
    """Read `KEY=FIELD` words."""
    fields = {}
    for word in words:
        key, _, name = word.rpartition("=")
        if not key or not name:
            raise ArgumentError(f"--field {word}: it must be KEY=FIELD, such as jpeg=image.")
        fields[key] = name
    return fields


def _variant_name(
    short_side: int | None, max_side: int | None, image_format: str | None, quality: int | None
) -> str | None:
    """Name the variant that the options ask for; None for the original."""
    if (short_side, max_side, image_format, quality) == (None, None, None, None):
        return None
    from recordzoo.recipes.variant import Variant

    if short_side is not None and max_side is not None:
        raise ArgumentError(f"--short-side {short_side} and --max-side {max_side} are both given; pass one of them.")
    return str(Variant(short_side, max_side, image_format or "jpeg", quality))


def _prepare(target: Target, options: "Options") -> dict[str, Any]:
    from recordzoo.records.reader import RecordReader

    began = time.monotonic()
    with explained(target):
        made = make(target, dataclasses.replace(options, progress=printed.make_progress()), full=True)
    elapsed_s = time.monotonic() - began
    reader = RecordReader(made.path)
    warning = (
        _change_warning(target, made.preparation, reader) if made.was_ready and made.preparation is not None else None
    )
    if warning is not None:
        printed.say(f"warning: {clean(warning)}")
    read_as = _read_as(target, reader)
    what = counted(len(reader), "record") + (f" of {read_as}" if target.kind == "foreign" else "")
    if target.kind == "tree" or read_as == "zip":
        names = reader.manifest.classes or ()
        classes = counted(len(names), "class", "classes")
        what = f"{counted(len(reader), 'record')} of {classes} ({clean(name_first(names, _CLASSES_SHOWN))})"
    how = "" if made.was_ready else f", made in {format_seconds(max(1, elapsed_s))}"
    printed.say(f"{clean(target.label)}: ready, {what} in {clean(str(made.path))}{how}")
    return {
        "name": target.label,
        "path": str(made.path),
        "read_as": read_as,
        "records": len(reader),
        "was_ready": made.was_ready,
        "elapsed_s": round(elapsed_s, 3),
        "warning": warning,
    }


def _read_as(target: Target, reader: "RecordReader") -> str:
    """Return how the raw data is read: "dataset", "classes", "flat", "list", "set", "coco", ..., or a format."""
    if target.kind != "foreign":
        return "classes" if target.kind == "tree" else str(target.settings.get("format", target.kind))
    return reader.manifest.dataset


def _change_warning(target: Target, preparation: "Preparation", reader: "RecordReader") -> str | None:
    """Compare all raw files with those that the records were made from; None if nothing changed."""
    from recordzoo.preparing.changes import change_text, refuse_other

    if target.kind == "list" or preparation.options.refresh == "if-changed":
        return None  # compared already
    changes = preparation.changes()
    if preparation.options.records_dir is not None and target.entry is None:
        refuse_other(reader, changes)
    output = "" if preparation.options.records_dir is None else f" --output {quote(str(reader.folder))}"
    return change_text(reader, changes, f"{preparation.recipe.command(target.root)}{output}") if changes else None
