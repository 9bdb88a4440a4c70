"""Choose the record set that serves a tree: a pure function of the arguments and of the sets that exist."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record set that may serve.

    Attributes:
        path: Where it is, or will be.
        prepare: Whether `ensure` is called before it is opened: it makes the set, or compares it with the tree.
        whole: Whether it holds all images of the tree; otherwise the files that are selected.
    """

    path: Path
    prepare: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """The user's request.

    Attributes:
        whole: Where the record set of the whole tree lies by default.
        selected: Where that of the selected files lies by default; None if nothing is selected.
        explicit: The path that the user gave (`records_dir`).
        refresh: As in `PrepareOptions`.
        has_tree: Whether the tree is there.
    """

    whole: Path
    selected: Path | None = None
    explicit: Path | None = None
    refresh: bool | Literal["if-changed"] = False
    has_tree: bool = True


def candidates(wanted: Wanted, exists: Callable[[Path], bool]) -> list[Candidate]:
    """List the record sets that may serve a tree; the first that holds all files that are wanted does.

    Args:
        wanted: The user's request.
        exists: Whether there is a record set at a path.
    """
    place = wanted.explicit or wanted.whole
    compare = wanted.refresh == "if-changed"
    if wanted.selected is None:
        rebuild = not exists(place) or (wanted.refresh and not compare)
        return [Candidate(place, prepare=bool(rebuild or (compare and wanted.has_tree)), whole=True)]
    found = []
    if exists(place) and (not wanted.refresh or (compare and wanted.explicit is None)):
        found.append(Candidate(place, prepare=compare, whole=True))
    if wanted.explicit is None or not found:
        found.append(Candidate(wanted.explicit or wanted.selected, prepare=True, whole=False))
    return found
