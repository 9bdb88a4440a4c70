"""Suggest a known word for an unknown one: "Did you mean train?"."""

import difflib
import os
from collections.abc import Iterable

from recordzoo.errors import ArgumentError


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` abbreviates or resembles most, ignoring case; None if none is similar.

    Words of up to three letters must have the same first letter: "val" is not a misspelt "all".

    >>> closest("trian", ["train", "val"])
    'train'
    >>> closest("web", ["folder", "webdataset"])
    'webdataset'
    >>> closest("val", ["train", "test", "all"]) is None
    True
    """
    spelt = {name.casefold(): name for name in known}
    begins = [name for name in spelt if len(word) >= 3 and name.startswith(word.casefold())]
    if len(begins) == 1:
        return spelt[begins[0]]
    if len(word) <= 3:
        spelt = {name: known for name, known in spelt.items() if name[:1] == word[:1].casefold()}
    found = difflib.get_close_matches(word.casefold(), spelt, 1, 0.6)
    return spelt[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean train?" with the most similar known word; "" if none is similar."""
    found = closest(word, known)
    return f" Did you mean {found}?" if found is not None else ""


def no_split(owner: str | os.PathLike[str], split: str, known: Iterable[str]) -> ArgumentError:
    """Return the error for a split that a dataset or a record set does not have.

    Args:
        owner: The dataset's name, or the record set's path.
        split: The requested split.
        known: The existing splits.
    """
    names = list(known)
    return ArgumentError(
        f"{os.fspath(owner)} has no split {split!r}; it has {', '.join(names) or 'none'}.{did_you_mean(split, names)}",
        split=split,
        meant=closest(split, names),
    )
