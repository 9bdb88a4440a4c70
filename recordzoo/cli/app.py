"""The command line: all commands in the order of the help, each with its summary and examples.

A command's module is imported when the command is called, so that ``--help`` takes no time.
"""

import errno
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from importlib import import_module
from types import FrameType, MappingProxyType
from typing import Annotated, Any, ClassVar, Self

import typer
import typer.core
import typer.main

from recordzoo import errors
from recordzoo.base.progress import close_bars
from recordzoo.base.settings import command
from recordzoo.base.text import public_text
from recordzoo.cli import options
from recordzoo.cli.options import put
from recordzoo.errors import DownloadError, RecordZooError, TermsError


class Exit(IntEnum):
    """The exit codes of every command, with their meanings; 128 + n after signal n, as in a shell."""

    meaning: str

    OK = 0, "done, or nothing was to do"
    FAILED = 1, "failed"
    USAGE = 2, "wrong usage: an unknown option, name or value"
    NOT_FOUND = 3, "not found, or files must be downloaded by hand or need --accept-terms"
    NETWORK = 4, "the network or a server failed; the same command goes on from there"
    CORRUPT = 5, "a checksum is wrong, or an archive or a record set is damaged"
    DISK_FULL = 6, "too little room on the disk"
    INTERRUPTED = 130, "interrupted (SIGINT); `prepare`, `copy`, `merge` and the like keep what is finished"
    TERMINATED = 143, "terminated (SIGTERM); `prepare`, `copy`, `merge` and the like keep what is finished"

    def __new__(cls, code: int, meaning: str = "") -> Self:
        """Make the member of a number and its meaning."""
        found = int.__new__(cls, code)
        found._value_, found.meaning = code, meaning
        return found


# The first match counts, so subclasses come first.
_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (errors.ArgumentError, Exit.USAGE),
    (errors.NotPreparedError, Exit.NOT_FOUND),
    (errors.FolderError, Exit.NOT_FOUND),
    (errors.DownloadError, Exit.NETWORK),
    (errors.HashMismatchError, Exit.CORRUPT),
    (errors.ArchiveError, Exit.CORRUPT),
    (errors.DiskSpaceError, Exit.DISK_FULL),
    (errors.FormatVersionError, Exit.FAILED),
    (errors.OtherSourceError, Exit.FAILED),
    (errors.RemoteError, Exit.NETWORK),
    (errors.RecordError, Exit.CORRUPT),
)


def exit_code(err: BaseException) -> Exit:
    """Choose the exit code for an error."""
    if isinstance(err, OSError) and err.errno in (errno.ENOSPC, errno.EDQUOT):
        return Exit.DISK_FULL
    return next((code for kind, code in _CODES if isinstance(err, kind)), Exit.FAILED)


class _Command:
    """A command.

    Args:
        place: module:function.
        summary: What it does, in one line.
        examples: A test runs them in this order.
        sections: Headings of the help -> names of the options below them. All others are below "Options".
    """

    def __init__(
        self, place: str, summary: str, *examples: str, sections: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        self.place = place
        self.summary = summary
        self.examples = examples
        self.sections = sections

    # Any, here and below: click's class, which newer typers bundle.
    def load(self, name: str) -> Any:
        module, _, function = self.place.partition(":")
        lines = ["\b", "Example:" if len(self.examples) == 1 else "Examples:", *(f"  {each}" for each in self.examples)]
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        cls = type("Command", (_SectionedCommand,), {"sections": self.sections})
        alone.command(name, cls=cls, short_help=self.summary, epilog="\n".join(lines))(
            getattr(import_module(f"recordzoo.cli.{module}"), function)
        )
        return typer.main.get_command(alone)


class _SectionedCommand(typer.core.TyperCommand):
    """A command whose help has its options below headings."""

    sections: ClassVar[Mapping[str, Sequence[str]]]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        heading_of = {option: heading for heading, options in self.sections.items() for option in options}
        rows: dict[str, list[Any]] = {heading: [] for heading in ("Arguments", *self.sections, "Options")}
        for parameter in self.get_params(ctx):
            is_argument = parameter.param_type_name == "argument"
            heading = "Arguments" if is_argument else heading_of.get(str(parameter.name), "Options")
            if (row := parameter.get_help_record(ctx)) is not None:
                rows[heading].append(row)
        for heading, found in rows.items():
            if found:
                with formatter.section(heading):
                    formatter.write_dl(found)


class _Group:
    """Commands below a word."""

    def __init__(self, summary: str, **commands: _Command) -> None:
        self.summary = summary
        self.commands = commands

    def load(self, name: str) -> Any:
        return typer.main.get_command(
            _make_typer(name, self.summary, {"Commands": self.commands}, add_completion=False)
        )


SECTIONS: Mapping[str, Mapping[str, _Command | _Group]] = {
    "Every day": {
        "list": _Command(
            "listing:list_command",
            "List the datasets that can be prepared by name.",
            "recordzoo list bird",
            "recordzoo list --task detection --license 'open license' --max-size 2GB",
        ),
        "info": _Command(
            "listing:info",
            "Show a dataset's facts, or what a record set holds.",
            "recordzoo info cub200",
            "recordzoo info data/cub200.records --full",
        ),
        "prepare": _Command(
            "prepare:prepare",
            "Download, convert once, publish the record set.",
            "recordzoo prepare cub200 --root data",
            "recordzoo prepare photos --short-side 256",
            "recordzoo prepare train.lmdb --output data/train.records",
            sections={
                "Datasets by name": (
                    *("root", "split", "mirror", "accept_terms", "check_hash", "incomplete", "discard_raw"),
                ),
                "Own data": (
                    *("from_", "annotations", "target", "image", "image_dir", "image_suffix", "separator"),
                    *("exif", "split_column", "name_column", "shuffle"),
                    *("field", "list_", "allow_paths", "allow_empty"),
                ),
                "Smaller images": ("short_side", "max_side", "format", "quality"),
                "The record set": (
                    *("output", "shards", "shard_size", "on_error", "check_images", "refresh", "refresh_if_changed"),
                    *("workers", "dask"),
                ),
            },
        ),
        "show": _Command(
            "record_set:show",
            "See a record set's images on a contact sheet.",
            "recordzoo show data/cub200.records --number 24",
            "recordzoo show photos --class cat --order largest",
        ),
    },
    "Change": {
        "merge": _Command(
            "sets:merge",
            "Store the records of several sets as one record set.",
            "recordzoo merge 2025.records 2026.records --output all.records",
            "recordzoo merge cats dogs --output pets.records --classes union",
        ),
        "split": _Command(
            "sets:split",
            "Divide a record set into train and val.",
            "recordzoo split photos.records --val 10%",
            "recordzoo split scans.records --val 0.2 --by patient --seed 7",
        ),
        "subset": _Command(
            "sets:subset",
            "Store some records of a set as a new record set.",
            "recordzoo subset photos.records --classes cat,dog --output pets.records",
            "recordzoo subset photos --split train --output train.records",
        ),
    },
    "Move": {
        "copy": _Command(
            "sets:copy",
            "Copy a record set to another place.",
            "recordzoo copy data/photos.records /mnt/fast",
            "recordzoo copy photos /mnt/backup/photos-2026.records --verify",
        ),
        "push": _Command(
            "sets:push",
            "Copy a record set to object storage.",
            "recordzoo push data/photos.records s3://bucket/datasets",
            "recordzoo push photos s3://bucket/photos.records --verify",
        ),
        "pull": _Command(
            "sets:pull",
            "Copy a record set from object storage to this machine.",
            "recordzoo pull s3://bucket/datasets/photos.records data",
            "recordzoo pull s3://bucket/datasets --dry-run",
        ),
        "export": _Command(
            "sets:export",
            "Write a record set as files that other programs read.",
            "recordzoo export photos --to folder --output photos-folder",
            "recordzoo export data/cub200.records --to webdataset --output cub-tar",
        ),
    },
    "Help": {
        "verify": _Command(
            "record_set:verify",
            "Check whether a record set is undamaged.",
            "recordzoo verify data/cub200.records",
            "recordzoo verify data/cub200.records --full",
        ),
        "bench": _Command(
            "bench:bench", "Measure how fast your images become batches.", "recordzoo bench photos --images 2000"
        ),
        "cache": _Group(
            "List and delete what recordzoo wrote to the disk.",
            ls=_Command(
                "cache:ls",
                "List what recordzoo wrote, with sizes and last use.",
                "recordzoo cache ls",
                "recordzoo cache ls data --json",
            ),
            rm=_Command(
                "cache:rm",
                "Delete record sets, or other things that recordzoo wrote.",
                "recordzoo cache rm data/cub200.records",
                "recordzoo cache rm s3://bucket/cub200.records",
                "recordzoo cache rm data/cub200.records data/CUB_200_2011.tgz --yes",
            ),
        ),
        "doctor": _Command(
            "doctor:doctor",
            "Check the installation and the disk, and say what would help.",
            "recordzoo doctor",
            "recordzoo doctor --root data --json",
        ),
    },
}
"""The commands below the headings of the help."""


class _Loaded(Mapping[str, Any]):
    """Click's commands by name, each loaded when it is asked for."""

    def __init__(self, rows: Mapping[str, _Command | _Group]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Any:
        return self._rows[name].load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class _ListedGroup(typer.core.TyperGroup):
    """A group whose commands are rows of tables; its help imports no command."""

    sections: ClassVar[Mapping[str, Mapping[str, _Command | _Group]]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Loaded({name: row for rows in self.sections.values() for name, row in rows.items()})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(len(name) for name in self.commands)
        for heading, rows in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), row.summary) for name, row in rows.items()])


def _make_typer(
    name: str,
    summary: str,
    sections: Mapping[str, Mapping[str, _Command | _Group]],
    *,
    add_completion: bool = True,
    epilog: str = "",
) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=type("Group", (_ListedGroup,), {"sections": sections}),
        help=summary,
        epilog=epilog or None,
        callback=_show_help,
        invoke_without_command=True,
        add_completion=add_completion,
        rich_markup_mode=None,  # plain text: rich would double the time to the first line
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        put(context.get_help())


def _exit_code_help() -> str:
    # "\b" keeps click from joining the lines.
    lines = [f"{code.value:>3}  {code.meaning}" for code in Exit]
    return "\n".join(["\b", "Exit codes:", *lines])


def _show_version(value: bool) -> None:
    if value:
        from recordzoo import __version__

        put(f"recordzoo {__version__}")
        raise typer.Exit


app = _make_typer(
    "recordzoo",
    "Datasets for PyTorch: downloaded, converted once into a few large checked files, read at the disk's speed.",
    SECTIONS,
    epilog=_exit_code_help(),
)


@app.callback(invoke_without_command=True)
def recordzoo(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Show the help, if no command is given."""
    _show_help(context)


# Any: found through the one class that every typer exports: newer ones carry click inside, older ones import it.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

_KEPT = "what is finished is kept, and the same command goes on from there."
_NOT_KEPT = "nothing of this run is kept, and the same command begins again."
_CACHE = "what is not deleted yet stays."
_KEEPING = ("prepare", "copy", "merge", "split", "subset", "push", "pull")


def run(app: Callable[..., Any], args: Sequence[str]) -> int:
    """Run the command line and return its exit code; nothing but `SystemExit` from a shell's completion escapes."""
    as_json = "--json" in args
    signals = _Signals()
    try:
        with signals:
            options.make_safe()
            # Any: a command returns None or its exit code; typer returns the code of its own early exits.
            result: Any = app(args=list(args), prog_name="recordzoo", standalone_mode=False)
            options.flush()
        code = result if isinstance(result, int) else Exit.OK
    except BrokenPipeError:
        code = Exit.FAILED
    except (KeyboardInterrupt, typer.Abort):
        code = Exit.INTERRUPTED
    except Exception as err:  # noqa: BLE001 - whatever it is, it becomes a message and a code here
        code = Exit.FAILED
        if not signals.caught:
            code = _report(err, args, as_json)
    if signals.caught or code == Exit.INTERRUPTED:
        code = 128 + (signals.caught or signal.SIGINT)
        _report_interrupted(code, args, as_json)
    options.forget_unwritable()
    return int(code)


def _report(err: Any, args: Sequence[str], as_json: bool) -> int:
    """Print the error and what to do next to stderr; `err` is any exception. Secrets in `args` are not shown."""
    close_bars()
    if isinstance(err, _USAGE_ERROR):
        context = getattr(err, "ctx", None)
        path = context.command_path.split()[1:] if context else []
        said = err.format_message()
        code, text = Exit.USAGE, f"{said}{'' if said.endswith(('.', '?')) else '.'} See: {command(*path)} --help"
    elif isinstance(err, RecordZooError | OSError):
        code, text = exit_code(err), _text(err)
    else:
        code, text = Exit.FAILED, f"{type(err).__name__}: {err} (an error in recordzoo; please report it)"
        if not as_json:
            options.say(public_text("".join(traceback.format_exception(err)), *args))
    text = public_text(text, *args)
    notes = list(getattr(err, "__notes__", ()))  # the address of the documentation's section
    if as_json:
        found = {key: value for key, value in getattr(err, "details", {}).items() if value is not None}
        details = {
            key: public_text(os.fspath(value), *args) if isinstance(value, str | os.PathLike) else value
            for key, value in found.items()
        }
        error = {"code": int(code), "name": Exit(code).name.lower(), "type": type(err).__name__, "message": text}
        if notes:
            error["notes"] = notes
        options.say_json({"error": {**error, "details": details}})
    elif isinstance(err, TermsError):
        options.say(f"error: these files must be downloaded by hand, or need --accept-terms.\n{text}")
    elif isinstance(err, DownloadError):
        options.say(f"error: {text}")  # it may end with numbered instructions
    else:
        options.say("error: " + " ".join(text.split("\n")))
    if notes and not as_json:
        options.say("\n".join(notes))
    return int(code)


def _text(err: RecordZooError | OSError) -> str:
    """Return an error's message; for the system's errors, file and reason without the number."""
    if isinstance(err, RecordZooError) or not isinstance(err, OSError) or not err.strerror:
        return str(err)
    return f"{os.fsdecode(err.filename)}: {err.strerror}" if isinstance(err.filename, str | bytes) else err.strerror


def _report_interrupted(code: int, args: Sequence[str], as_json: bool) -> None:
    close_bars()
    name = Exit(code).name.lower()
    called = next((word for word in args if not word.startswith("-")), "")
    text = f"{name}; {_CACHE if called == 'cache' else _KEPT if called in _KEEPING else _NOT_KEPT}"
    if as_json:
        options.say_json({"error": {"code": code, "name": name, "type": "KeyboardInterrupt", "message": text}})
    else:
        options.say(text)


class _Signals:
    """SIGTERM handled like SIGINT: both raise `KeyboardInterrupt` once, so that the library can clean up.

    A second signal within a second is the same one sent twice (by the terminal and by `make`) and is ignored; a later
    one means it, and ends the process at once.
    """

    def __init__(self) -> None:
        self.caught = 0
        self._when = 0.0
        self._before: dict[int, Any] = {}  # Any: a handler as `signal` gives it

    def __enter__(self) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM):
            self._before[signum] = signal.signal(signum, self._handle)

    def __exit__(self, *exc: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if not self.caught:
            self.caught, self._when = signum, time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - self._when > 1:
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
