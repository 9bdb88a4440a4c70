"""`prepare`: names and paths become recipes, and the library does the rest."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recordzoo.aliases import JSON
from recordzoo.bars import close_bars
from recordzoo.cli import output
from recordzoo.cli.exits import exit_code
from recordzoo.cli.plans import needs, show_plans
from recordzoo.cli.preflight import check_room, look_ahead
from recordzoo.cli.progress import make_progress
from recordzoo.cli.set_check import check_list_now, check_set, explained
from recordzoo.cli.targets import Target, TreeOptions, refuse_urls, resolve
from recordzoo.cli.usage import check_usage
from recordzoo.errors import ArgumentError, RecordZooError, TermsError
from recordzoo.program import command
from recordzoo.progress import format_seconds
from recordzoo.text import clean

if TYPE_CHECKING:
    from recordzoo.recipes.base import Recipe
    from recordzoo.records.reader import RecordReader


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What `prepare` was asked for, besides the library's options.

    Attributes:
        names: Datasets, parts of them, paths.
        root: Where the raw data of datasets is or goes to; None for the current directory.
        split: Only the part that holds this split.
        trees: How directories of images are taken.
        shuffle_seed: For lists: the order of writing.
        dry_run: Only say what would be done.
        dask: Address of the Dask scheduler whose workers convert.
    """

    names: Sequence[str]
    root: Path | None = None
    split: str | None = None
    trees: TreeOptions = dataclasses.field(default_factory=TreeOptions)
    shuffle_seed: int | None = None
    dry_run: bool = False
    dask: str | None = None


# Any: the options are checked by the library's own TypedDict when they get there.
def prepare_all(request: Request, options: Mapping[str, Any], *, as_json: bool = False) -> None:
    """Prepare every record set that the names mean, one after another; one that fails does not stop the others.

    Of a dataset of several parts, those are prepared whose files are there or may be fetched.

    Raises:
        ArgumentError: An option does not go with what was named.
        Exception: The error of the first record set that could not be prepared, after all others were tried.
    """
    refuse_urls("--root", request.root)
    refuse_urls("--output (--records-dir)", options["records_dir"])
    wanted = [
        _set(target, request.shuffle_seed, options)
        for name in request.names
        for target in resolve(name, request.root or Path(), request.split, request.trees)
    ]
    check_usage(request, wanted, options)
    if options["records_dir"] is not None and len(wanted) > 1:
        sets = ", ".join(target.label for target in wanted)
        raise ArgumentError(
            f"--output (--records-dir) names one record set, but {len(wanted)} are asked for: {sets}. Prepare them one "
            "by one, or leave it out."
        )
    if request.split is None:
        _say_splits(wanted)
    if request.dry_run:
        show_plans(wanted, options, as_json)
        return
    with _executor(request.dask) as executor:
        blocked = _look_ahead(wanted, options) if len(wanted) > 1 else {}
        done, failed = _prepare_each(wanted, blocked, {**options, "executor": executor})
    if as_json:
        document: dict[str, JSON] = {"record_sets": done}
        if failed:
            document["failed"] = [_failure(label, err) for label, err in failed.items()]
        output.put_json(document)
    if len(wanted) > 1:
        names = ", ".join(each["name"] for each in done)
        output.say(f"{len(done)} of {len(wanted)} record sets are ready{': ' if done else ''}{names}.")
    for label in failed if done else ():  # where nothing is ready, what failed was just said
        output.say(f"{label}: not prepared.")
    for target in wanted:
        if target.label in failed:
            raise failed[target.label]


@contextlib.contextmanager
def _executor(dask: str | None) -> Iterator[Executor | None]:
    """Connect to the cluster that was asked for, before anything is downloaded; None for this machine."""
    if dask is None:
        yield None
        return
    from recordzoo.preparing.dask_cluster import dask_executor

    with dask_executor(dask) as executor:
        yield executor


# Any: as above.
def _prepare_each(
    wanted: Sequence[Target], blocked: Mapping[str, RecordZooError], options: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Exception]]:
    """Prepare one after another; return what was made, and the errors by label.

    Raises:
        Exception: There is only one, and it failed.
    """
    done: list[dict[str, Any]] = []
    failed: dict[str, Exception] = dict(blocked)
    todo = [target for target in wanted if target.label not in blocked]
    for number, target in enumerate(todo, 1):
        try:
            done.append(_prepare(target, options))
        except BrokenPipeError:
            raise
        except Exception as err:
            if len(wanted) == 1:
                raise
            close_bars()
            failed[target.label] = err
            rest = ", ".join(each.label for each in todo[number:])
            reason = needs(err) if isinstance(err, TermsError) else str(err).partition("\n")[0].rstrip(".")
            output.say(
                f"{target.label}: failed: {clean(reason or type(err).__name__)}."
                + (f" Going on with {rest}." if rest else "")
            )
    return done, failed


def _failure(label: str, err: Exception) -> dict[str, JSON]:
    code = exit_code(err)
    return {"name": label, "code": int(code), "type": type(err).__name__, "message": str(err)}


def _say_splits(wanted: Sequence[Target]) -> None:
    """Say of which trees every folder is taken as a split."""
    for tree in dict.fromkeys(target.split_of for target in wanted if target.split_of):
        names = ", ".join(target.root.name for target in wanted if target.split_of == tree)
        output.say(
            f"{tree} has splits and no classes ({names}): each is a record set of its own. For one record set with "
            f"these as its classes, run: {command('prepare', tree, '--as-classes')}"
        )


# Any: as above.
def _set(target: Target, shuffle_seed: int | None, options: Mapping[str, Any]) -> Target:
    """Give a list the options that are its own.

    Raises:
        ArgumentError: It is no list and shall be shuffled; or it is a record set already.
    """
    if target.kind == "set" and options["variant"] is None:
        raise ArgumentError(
            f"{target.label} is a record set already. For a variant of it pass --short-side, --max-side or --format."
        )
    if target.kind == "list":
        from recordzoo.custom.listing import layout_of

        settings = {"shuffle_seed": shuffle_seed, "layout": layout_of(options)}
        return dataclasses.replace(target, settings=settings)
    if shuffle_seed is not None:
        raise ArgumentError(f"--shuffle is for lists of files; {target.label} is none.")
    return target


def _look_ahead(wanted: Sequence[Target], options: Mapping[str, Any]) -> dict[str, RecordZooError]:
    """Find, before the work starts, what will not fit, and the parts of whole datasets that cannot be had.

    Returns:
        Why each of those parts cannot be had, by its label; empty if that goes for all parts, or if one was named:
        then preparing the first of them says so.

    Raises:
        DiskSpaceError: There is too little room for all of it.
    """
    prospects = look_ahead(wanted, options)
    blocked: dict[str, RecordZooError] = {
        p.target.label: p.obstacle for p in prospects if p.obstacle is not None and not p.target.is_named
    }
    possible = [p for p in prospects if p.obstacle is None]
    check_room(possible, discard_raw=options["discard_raw"])
    if not possible:
        return {}
    going_on = ", ".join(p.target.label for p in prospects if p.target.label not in blocked)
    for label, err in blocked.items():
        output.say(
            f"{label}: cannot be prepared: {needs(err)} "
            f"({err.details.get('path')} is not there). Going on with {going_on}."
        )
    return blocked


def variant_name(
    short_side: int | None, max_side: int | None, image_format: str | None, quality: int | None
) -> str | None:
    """Name the variant that the options ask for; None for the original.

    Raises:
        ArgumentError: They contradict each other, or one has a value that it cannot have.
    """
    if (short_side, max_side, image_format, quality) == (None, None, None, None):
        return None
    from recordzoo.recipes.variants import Variant

    if short_side is not None and max_side is not None:
        raise ArgumentError(f"--short-side {short_side} and --max-side {max_side} are both given; pass one of them.")
    return str(Variant(short_side, max_side, image_format or "jpeg", quality))


def _prepare(target: Target, options: Mapping[str, Any]) -> dict[str, Any]:
    from recordzoo.preparing import ensure
    from recordzoo.recipes.variants import variant_recipe
    from recordzoo.records.reader import RecordReader

    with explained(target):
        recipe = variant_recipe(target.recipe(), target.root, options["variant"])
    before = _generation(Path(options["records_dir"] or recipe.target(target.root)))
    began = time.monotonic()
    with explained(target):
        path = ensure(recipe, target.root, download=True, progress=make_progress(), **options)
    elapsed_s = time.monotonic() - began
    reader = RecordReader(path)
    check_set(target, reader)
    was_ready = before is not None and before == _generation(path)
    warning = _change_warning(recipe, target, reader, options) if was_ready and target.kind != "list" else None
    if target.kind == "list":
        check_list_now(target, path, was_ready)
    if warning is not None:
        output.say(f"warning: {clean(warning)}")
    records = len(reader)
    how = "" if was_ready else f", made in {format_seconds(max(1, elapsed_s))}"
    output.say(f"{target.label}: ready, {records:,} records in {clean(str(path))}{how}")
    return {
        "name": target.label,
        "path": str(path),
        "records": records,
        "was_ready": was_ready,
        "elapsed_s": round(elapsed_s, 3),
        "warning": warning,
    }


def _generation(place: Path) -> tuple[int, int] | None:
    """Tell one record set at a place from another that is exchanged with it; None for none."""
    from recordzoo.preparing import is_record_set

    place = place.expanduser()
    return (place.stat().st_dev, place.stat().st_ino) if is_record_set(place) else None


def _change_warning(recipe: "Recipe", target: Target, reader: "RecordReader", options: Mapping[str, Any]) -> str | None:
    """Compare all raw files with those that the records were made from; None if they are what they were.

    Raises:
        OtherSourceError: The records that --records-dir names are those of another tree.
    """
    from recordzoo.preparing.changes import change_text, refuse_other
    from recordzoo.preparing.describe import changes_since

    changes = changes_since(recipe, target.root, **{**options, "progress": make_progress()})
    if options["records_dir"] is not None and target.entry is None:
        refuse_other(reader, changes)
    return change_text(reader, changes, recipe.command(target.root)) if changes else None
