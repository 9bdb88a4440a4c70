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
from recordzoo.cli.set_check import explained
from recordzoo.cli.targets import refuse_urls
from recordzoo.cli.usage import check_usage
from recordzoo.custom.targets import Reading, Target, resolve
from recordzoo.errors import ArgumentError, RecordZooError, TermsError
from recordzoo.program import command
from recordzoo.progress import format_seconds
from recordzoo.text import clean

if TYPE_CHECKING:
    from recordzoo.preparing import Located, Options
    from recordzoo.records.reader import RecordReader


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What `prepare` was asked for, besides the library's options.

    Attributes:
        names: Datasets, parts of them, paths.
        root: Where the raw data of datasets is or goes to; None for the current directory.
        split: Only the part that holds this split.
        reading: How own data is read.
        shuffle_seed: For lists: the order of writing.
        dry_run: Only say what would be done.
        dask: Address of the Dask scheduler whose workers convert.
    """

    names: Sequence[str]
    root: Path | None = None
    split: str | None = None
    reading: Reading = dataclasses.field(default_factory=Reading)
    shuffle_seed: int | None = None
    dry_run: bool = False
    dask: str | None = None


def prepare_all(request: Request, options: "Options", *, as_json: bool = False) -> None:
    """Prepare every record set that the names mean, one after another; one that fails does not stop the others.

    Of a dataset of several parts, those are prepared whose files are there or may be fetched.

    Raises:
        ArgumentError: An option does not go with what was named.
        Exception: The error of the first record set that could not be prepared, after all others were tried.
    """
    from recordzoo.custom.making import completed  # imports NumPy

    refuse_urls("--root", request.root)
    refuse_urls("--output", options.records_dir)
    wanted = [
        completed(target, request.shuffle_seed, options)
        for name in request.names
        for target in resolve(name, request.root or Path(), request.split, request.reading, options.records_dir)
    ]
    check_usage(request, wanted, options)
    if options.records_dir is not None and len(wanted) > 1:
        sets = ", ".join(target.label for target in wanted)
        raise ArgumentError(
            f"--output names one record set, but {len(wanted)} are asked for: {sets}. Prepare them one "
            "by one, or leave it out."
        )
    if request.split is None:
        _say_splits(wanted)
    if request.dry_run:
        show_plans(wanted, options, as_json)
        return
    with _executor(request.dask) as executor:
        blocked = _look_ahead(wanted, options) if len(wanted) > 1 else {}
        done, failed = _prepare_each(wanted, blocked, dataclasses.replace(options, executor=executor))
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


# Any: JSON.
def _prepare_each(
    wanted: Sequence[Target], blocked: Mapping[str, RecordZooError], options: "Options"
) -> tuple[list[dict[str, Any]], dict[str, Exception]]:
    """Prepare one after another; return what was made, and the errors by label."""
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
            f"these as its classes, run: {command('prepare', tree, '--from', 'classes')}"
        )


def _look_ahead(wanted: Sequence[Target], options: "Options") -> dict[str, RecordZooError]:
    """Find, before the work starts, what will not fit, and the parts of whole datasets that cannot be had.

    Returns:
        Why each of those parts cannot be had, by its label; empty if that goes for all parts, or if one was named:
        then preparing the first of them says so.
    """
    prospects = look_ahead(wanted, options)
    blocked: dict[str, RecordZooError] = {
        p.target.label: p.obstacle for p in prospects if p.obstacle is not None and not p.target.is_named
    }
    possible = [p for p in prospects if p.obstacle is None]
    check_room(possible, discard_raw=options.discard_raw)
    if not possible:
        return {}
    going_on = ", ".join(p.target.label for p in prospects if p.target.label not in blocked)
    for label, err in blocked.items():
        output.say(
            f"{label}: cannot be prepared: {needs(err)} "
            f"({err.details.get('path')} is not there). Going on with {going_on}."
        )
    return blocked


def read_fields(words: Sequence[str]) -> dict[str, str]:
    """Read `KEY=FIELD` words.

    Raises:
        ArgumentError: One is none.
    """
    fields = {}
    for word in words:
        key, _, name = word.rpartition("=")
        if not key or not name:
            raise ArgumentError(f"--field {word}: it must be KEY=FIELD, such as jpeg=image.")
        fields[key] = name
    return fields


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


def _prepare(target: Target, options: "Options") -> dict[str, Any]:
    from recordzoo.custom.making import make
    from recordzoo.records.reader import RecordReader

    began = time.monotonic()
    with explained(target):
        made = make(target, dataclasses.replace(options, progress=make_progress()), full=True)
    elapsed_s = time.monotonic() - began
    path, was_ready, reader = made.path, made.was_ready, RecordReader(made.path)
    warning = _change_warning(target, made.located, reader) if was_ready and made.located is not None else None
    if warning is not None:
        output.say(f"warning: {clean(warning)}")
    read_as = _read_as(target, reader)
    what = f"{len(reader):,} records" + (f" of {read_as}" if target.kind == "foreign" else "")
    how = "" if was_ready else f", made in {format_seconds(max(1, elapsed_s))}"
    output.say(f"{clean(target.label)}: ready, {what} in {clean(str(path))}{how}")
    return {
        "name": target.label,
        "path": str(path),
        "read_as": read_as,
        "records": len(reader),
        "was_ready": was_ready,
        "elapsed_s": round(elapsed_s, 3),
        "warning": warning,
    }


def _read_as(target: Target, reader: "RecordReader") -> str:
    """Return as what the raw data was read: "dataset", "classes", "flat", "list", "set", or another tool's format."""
    if target.kind != "foreign":
        return "classes" if target.kind == "tree" else target.kind
    return reader.manifest.dataset


def _change_warning(target: Target, located: "Located", reader: "RecordReader") -> str | None:
    """Compare all raw files with those that the records were made from; None if they are what they were."""
    from recordzoo.preparing.changes import change_text, refuse_other

    if target.kind == "list" or located.options.refresh == "if-changed":
        return None  # compared already
    changes = located.changes()
    if located.options.records_dir is not None and target.entry is None:
        refuse_other(reader, changes)
    return change_text(reader, changes, located.recipe.command(target.root)) if changes else None
