"""What commands share: options, the meaning of their arguments, and output as lines, tables or JSON."""

import json
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from recordzoo.base import settings
from recordzoo.base.progress import Progress, default_progress, is_terminal
from recordzoo.base.settings import command
from recordzoo.base.text import JSON, clean, display_width
from recordzoo.errors import ArgumentError, NotPreparedError, SourceError
from recordzoo.net.url import Url, is_url
from recordzoo.own.targets import Reading, is_path, no_set, records_beside, resolve

PLAIN_INTERVAL_S = 15.0

SCHEMA_VERSION = 1
"""The version of the JSON documents that commands print: raised when a key is removed or changes its meaning."""


def clean_lines(text: str) -> str:
    """Like `clean`, but keep the plain line breaks of our own messages."""
    return "\n".join(map(clean, text.split("\n")))


def say(text: str) -> None:
    """Print one line for people; if stderr is closed or its disk is full, go on silently."""
    if sys.stderr is None:  # the shell closed it: 2>&-; `print` would take stdout
        return
    try:
        print(clean_lines(text), file=sys.stderr, flush=True)  # noqa: T201 - the command line is where printing happens
    except BrokenPipeError:
        raise
    except OSError:
        _forget(sys.stderr)


def put(text: str) -> None:
    """Print data, line by line."""
    print(clean_lines(text))  # noqa: T201 - as above


def put_json(document: Mapping[str, JSON]) -> None:
    """Print one JSON document: ASCII, so that it survives any terminal and any pipe."""
    print(_json(document))  # noqa: T201 - as above


def say_json(document: Mapping[str, JSON]) -> None:
    """Print one JSON document on stderr: an error."""
    say(_json(document))


def _json(document: Mapping[str, JSON]) -> str:
    return json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2, default=str)


def make_safe() -> None:
    """Escape characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # absent if a test replaced the stream
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flush the output, so that a broken pipe is noticed here and not while Python exits."""
    if sys.stdout is not None:  # None where the shell closed it: >&-
        sys.stdout.flush()


def forget_unwritable() -> None:
    """Drop output that cannot be written: at exit Python would try again, print a traceback and change the exit code.

    A reader went away (``recordzoo list | head``), or the disk is full.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None where the shell closed it
                stream.flush()
        except OSError:
            _forget(stream)


def _forget(stream: TextIO) -> None:
    """Discard the rest of a stream that cannot be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def confirm(question: str) -> bool:
    """Ask on the terminal; return whether the answer is yes."""
    streams = (sys.stdin, sys.stderr)  # None where the shell closed one
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise ArgumentError(f"{question} There is no terminal to ask on: pass --yes, or --dry-run to only look.")
    return typer.confirm(question, err=True)


def make_progress() -> Progress:
    """Choose the progress: a bar on a terminal, occasional lines elsewhere; also print the library's log lines."""
    logger = logging.getLogger("recordzoo")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if not any(isinstance(handler, _LineHandler) for handler in logger.handlers):
        logger.addHandler(_LineHandler())
    return default_progress(PLAIN_INTERVAL_S)


class _LineHandler(logging.Handler):
    """Prints the message of a log record for people, above a bar if one is drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        text = clean(record.getMessage())
        if is_terminal() and "tqdm" in sys.modules:
            from tqdm import tqdm

            tqdm.write(text, file=sys.stderr)
        else:
            say(text)


_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[kmgt]?)(?P<kind>i?b)?", re.IGNORECASE)


def parse_bytes(option: str, text: str) -> int:
    """Read ``512M`` or ``512MiB`` (2 to the power of 20) and ``512MB`` (10 to the power of 6) as bytes.

    Raises:
        ArgumentError: The text is not a size, or the size is less than a byte.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match:
        base = 1000 if (match["kind"] or "").lower() == "b" else 1024
        size = int(float(match["number"]) * base ** " kmgt".index(match["unit"].lower() or " "))
    if size < 1:
        raise ArgumentError(f"{option} {text!r} is no size: give bytes, or a number with K, M, G or T, as in 512M.")
    return size


def complete_data(incomplete: str) -> list[str]:
    """Complete the names of datasets and their parts; a shell completes paths itself where nothing is offered."""
    from recordzoo import catalogue

    entries = [catalogue.entry(name) for name in catalogue.names()]
    known = [*(e.name for e in entries), *(e.label(p.name) for e in entries for p in e.parts if p.name)]
    return [name for name in known if name.startswith(incomplete)]


# Any: typer's own class; so, too, below.
def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option with a value; `names` if it differs from the parameter's name."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(name: str, help: str, *names: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, *names, help=help)


def path_option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option that is, or begins with, a path."""
    return option(metavar, help, *names, callback=_at_home, **more)


def directory_option(help: str, *names: str, **more: Any) -> Any:
    """Return an option that is a directory."""
    return path_option("DIR", help, *names, file_okay=False, **more)


def path_argument(metavar: str, help: str, **more: Any) -> Any:
    """Return an argument that is a path."""
    return typer.Argument(metavar=metavar, help=help, callback=_at_home, **more)


def data_argument(metavar: str, help: str) -> Any:
    """Return an argument that is a record set, or the data of one."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete_data, callback=_at_home)


def _at_home(value: Any) -> Any:
    """Expand "~" in a path or in each of several: a shell leaves it in ``--root=~/zoo``, and another program anywhere.

    URLs do not begin with it, and stay. An empty text is refused: as a path it would be the current directory.
    """
    if isinstance(value, list | tuple):
        return [_at_home(each) for each in value]
    if isinstance(value, Path):
        return value.expanduser()
    if value == "":
        raise ArgumentError("An argument is empty. Is a variable of the shell not set?")
    return os.path.expanduser(value) if isinstance(value, str) else value


Json = Annotated[bool, flag("--json", "Print one JSON document on stdout; errors as JSON on stderr.")]

RecordSet = Annotated[
    str,
    data_argument(
        "NAME|PATH|URL",
        "A record set's directory or URL, the tree or list that it was made from, or a dataset prepared here.",
    ),
]

RecordSetHere = Annotated[
    str, data_argument("NAME|PATH", "A record set, the tree or list that it was made from, or a dataset prepared here.")
]

SplitOption = Annotated[str | None, option("NAME", "Only images of this split.")]

Converters = Annotated[
    int | None, option("N", "Processes that convert. Default: a core each, at most 8; one for less than 16 MiB.", min=1)
]

Refresh = Annotated[bool, flag("--refresh", "Rebuild the record set and replace the existing one atomically.")]

AcceptTerms = Annotated[bool, flag("--accept-terms", "You accept the terms of access of a dataset's files.")]

DryRun = Annotated[bool, flag("--dry-run", "Print what would be done, and how large; do nothing.")]


FIXED_SPACE = "\N{NO-BREAK SPACE}"
"""A space at which a cell is not wrapped; printed as a plain space."""

_GAP = 2


def wrapping_width() -> int | None:
    """Return the maximum width of tables: the terminal's; None elsewhere, where programs read the lines."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()  # None where the shell closed it: >&-
    return shutil.get_terminal_size((80, 24)).columns if is_terminal else None


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """Format rows as columns under a header.

    Args:
        head: The columns' names.
        rows: A cell for each column.
        width: Wrap cells so that lines are no longer than this, as far as their words allow; None for no limit.
    """
    lines = [head, *rows]
    widths = [max(display_width(line[i]) for line in lines) for i in range(len(head))]
    if width is not None:
        floors = [max(_longest_word(line[i]) for line in lines) for i in range(len(head))]
        widths = _narrowed(widths, floors, width - _GAP * (len(head) - 1))
    return "\n".join(text for line in lines for text in _row(line, widths)).replace(FIXED_SPACE, " ")


def _wrap(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [""]


def _longest_word(cell: str) -> int:
    start = len(cell) - len(cell.lstrip(" "))
    return start + max(map(display_width, cell.split(" ")), default=0)


def _narrowed(widths: Sequence[int], floors: Sequence[int], room: int) -> list[int]:
    """Narrow the widest columns, one character at a time, until the table fits."""
    found = list(widths)
    while sum(found) > room:
        wide = [i for i, width in enumerate(found) if width > floors[i]]
        if not wide:
            break
        found[max(wide, key=lambda i: found[i])] -= 1
    return found


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [
        _wrap(cell, width) if display_width(cell) > width else [cell] for cell, width in zip(cells, widths, strict=True)
    ]
    height = max(map(len, columns))
    padded = [[*column, *[""] * (height - len(column))] for column in columns]
    gap = " " * _GAP
    return [
        gap.join(_padded(text, width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*padded, strict=True)
    ]


def shorten_end(text: str, columns: int) -> str:
    """Cut off the end of a text that is wider than `columns`."""
    while text and display_width(text) > columns - 4:
        text = text[: -max(1, (display_width(text) - columns) // 2)]
    return f"{text.rstrip()} ..."


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - display_width(text))


if TYPE_CHECKING:
    from recordzoo.preparing.changes import Changes
    from recordzoo.records.reader import RecordReader


def find_record_set(text: str) -> Path | Url:
    """Find the record set that an argument means: its directory or URL, its tree or list, or a dataset in this one.

    A tree or a list may be gone. A URL may also be that of the folder that the only set is in.

    Raises:
        ArgumentError: There is no such dataset, or several of its record sets are here.
        NotPreparedError: There is no record set.
    """
    if is_url(text):
        return _set_at_url(text)
    path = Path(text)
    if path.is_dir() and (path.name.endswith(".records") or (path / "manifest.json").exists()):
        return path
    if not path.exists() and path.name.endswith(".records"):
        raise NotPreparedError(f"There is no record set at {path}: it does not exist.", path=str(path))
    beside = records_beside(text) if is_path(text) else None
    if beside is not None:
        return beside
    try:
        targets = resolve(text, Path())
    except (ArgumentError, SourceError):  # prepare asks what is meant: here, only record sets are looked for
        if not path.is_dir():
            raise
        targets = resolve(text, Path(), reading=Reading(from_="classes"))
    places = [target.place() for target in targets]
    found = [place for place in places if place.is_dir()]
    if not found:
        raise no_set(text, places)
    if len(found) > 1:
        raise ArgumentError(f"{text} has several record sets here; name one: {', '.join(map(str, found))}.")
    return found[0]


def _set_at_url(text: str) -> Url:
    if settings.offline():  # the node's cache may know it
        return Url.parse(text)
    from recordzoo.sets.places import find_set  # imports NumPy

    return find_set(text)[0]


def find_local_set(text: str, what: str) -> Path:
    """Find a record set that must be on this machine, because `what` ("push") needs it here.

    Raises:
        ArgumentError: It is at a URL.
        NotPreparedError: There is none.
    """
    found = Url.parse(text) if is_url(text) else find_record_set(text)
    if isinstance(found, Path):
        return found
    raise ArgumentError(f"{found} is a URL; {what} needs a record set on this machine. Run: {command('pull', found)}")


def refuse_urls(what: str, place: Path | Url | None) -> None:
    """Refuse a URL, even one that became a path, if a path on this machine is needed.

    Raises:
        ArgumentError: It is a URL.
    """
    try:
        found = is_url(place)
    except ArgumentError:  # it has lost a slash on its way through `Path`
        found = True
    if found:
        raise ArgumentError(
            f"{what} is a URL, and must be on this machine. `recordzoo pull` and `push` copy record sets from and to "
            "URLs."
        )


def say_changes(reader: "RecordReader", changes: "Changes | None" = None) -> None:
    """Print a warning if raw files have changed since the record set was made of them.

    Without `changes`, a bounded number of files is compared now.
    """
    from recordzoo.preparing.changes import change_text, find_changes  # imports NumPy
    from recordzoo.zoo import update_command

    changes = find_changes(reader) if changes is None else changes
    if changes:
        say(f"warning: {clean(change_text(reader, changes, update_command(reader, changes.root)))}")
