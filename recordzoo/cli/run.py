"""From the command line to an exit code: one place where errors, signals and broken pipes end."""

import os
import re
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import typer

from recordzoo.base.addresses import public_text
from recordzoo.base.bars import close_bars
from recordzoo.base.meant import did_you_mean
from recordzoo.base.program import command
from recordzoo.cli import output
from recordzoo.cli.exits import Exit, exit_code
from recordzoo.errors import DownloadError, RecordZooError, TermsError

# Any: found through the one class that every typer exports: newer ones carry click inside, older ones import it.
_USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

_NO_COMMAND = re.compile(r"No such command '(.*?)'")

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
            output.make_safe()
            # Any: a command returns None or its exit code; typer returns the code of its own early exits.
            result: Any = app(args=list(args), prog_name="recordzoo", standalone_mode=False)
            output.flush()
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
    output.forget_unwritable()
    return int(code)


def _report(err: Any, args: Sequence[str], as_json: bool) -> int:
    """Print the error and what to do next to stderr; `err` is any exception. Secrets in `args` are not shown."""
    close_bars()
    if isinstance(err, _USAGE_ERROR):
        context = getattr(err, "ctx", None)
        path = context.command_path.split()[1:] if context else []
        code, text = Exit.USAGE, f"{_usage_text(err)} See: {command(*path)} --help"
    elif isinstance(err, RecordZooError | OSError):
        code, text = exit_code(err), _text(err)
    else:
        code, text = Exit.FAILED, f"{type(err).__name__}: {err} (an error in recordzoo; please report it)"
        if not as_json:
            output.say(public_text("".join(traceback.format_exception(err)), *args))
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
        output.say_json({"error": {**error, "details": details}})
    elif isinstance(err, TermsError):
        output.say(f"error: these files must be downloaded by hand, or need --accept-terms.\n{text}")
    elif isinstance(err, DownloadError):
        output.say(f"error: {text}")  # it may end with numbered instructions
    else:
        output.say("error: " + " ".join(text.split("\n")))
    if notes and not as_json:
        output.say("\n".join(notes))
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
        output.say_json({"error": {"code": code, "name": name, "type": "KeyboardInterrupt", "message": text}})
    else:
        output.say(text)


def _usage_text(err: Any) -> str:  # Any: click's error, whose module depends on typer's version
    """Describe a usage error, with suggestions, in the same words for all versions of click."""
    text: str = err.format_message()
    called = getattr(getattr(err, "ctx", None), "command", None)
    if (name := getattr(err, "option_name", None)) and text.startswith("No such option"):
        known = [option for parameter in getattr(called, "params", ()) for option in parameter.opts]
        return f"No such option: {name}.{did_you_mean(name, known)}"
    if match := _NO_COMMAND.match(text):
        return f"{match[0]}.{did_you_mean(match[1], getattr(called, 'commands', ()))}"
    return f"{text.rstrip('.')}."


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
