"""Find the record set that a command's argument names."""

from pathlib import Path
from typing import TYPE_CHECKING

from recordzoo.base import settings
from recordzoo.base.program import command
from recordzoo.base.text import clean
from recordzoo.cli.output import say
from recordzoo.custom.nearby import no_set
from recordzoo.custom.targets import is_path, records_beside, resolve
from recordzoo.errors import ArgumentError, NotPreparedError
from recordzoo.net.url import Url, is_url

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
    places = [target.place() for target in resolve(text, Path())]
    found = [place for place in places if place.is_dir()]
    if not found:
        raise no_set(text, places, is_dataset=not is_path(text))
    if len(found) > 1:
        raise ArgumentError(f"{text} has several record sets here; name one: {', '.join(map(str, found))}.")
    return found[0]


def _set_at_url(text: str) -> Url:
    if settings.offline():  # the node's cache may know it
        return Url.parse(text)
    from recordzoo.copying.places import find_set  # imports NumPy

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
    from recordzoo.preparing.changes import change_text, recorded_changes  # imports NumPy
    from recordzoo.preparing.kinds import refresh_command

    changes = recorded_changes(reader) if changes is None else changes
    if changes:
        say(f"warning: {clean(change_text(reader, changes, refresh_command(reader, changes.root)))}")
