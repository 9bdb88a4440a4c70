"""Find datasets by task, license, size, check and words."""

import re
from collections.abc import Iterable, Sequence

from recordzoo.base.meant import did_you_mean
from recordzoo.catalogue.facts import CHECKED, OBTAINED, Entry
from recordzoo.errors import ArgumentError


def fitting(
    entries: Iterable[Entry],
    words: Sequence[str] = (),
    *,
    task: str = "",
    license: str = "",
    obtained: str = "",
    checked: str = "",
    max_bytes: int | None = None,
) -> list[Entry]:
    """Choose the datasets that fit all arguments; an empty one fits every dataset. Case does not matter.

    Args:
        entries: The datasets.
        words: Words in the name, title, summary, task or class names.
        task: A word in the task: "detection".
        license: Words in the license, from the beginning of a word: "mit", "cc by".
        obtained: How the raw files are had: "download", "terms", "partly" or "by-hand".
        checked: How the recipe was checked: "bytes", "lists" or "layout".
        max_bytes: The largest download. A dataset of unknown size does not fit.

    Raises:
        ArgumentError: `obtained` or `checked` is none of its values; the message begins with the argument's name.
    """
    _check("obtained", obtained, [how.replace(" ", "-") for how in OBTAINED])
    _check("checked", checked, CHECKED)
    licensed = re.compile(rf"(?<!\w){re.escape(license)}", re.IGNORECASE)
    return [
        entry
        for entry in entries
        if task.lower() in entry.task.lower()
        and licensed.search(entry.license)
        and obtained in ("", entry.obtained.replace(" ", "-"))
        and checked in ("", entry.checked.by)
        and (max_bytes is None or (entry.size_bytes is not None and entry.size_bytes <= max_bytes))
        and all(word.lower() in searched_text(entry) for word in words)
    ]


def searched_text(entry: Entry) -> str:
    """Return the text of a dataset in which words are looked up, in lower case; the site uses it, too."""
    return " ".join([entry.name, entry.title, entry.summary, entry.task, *entry.class_names]).lower()


def _check(name: str, value: str, known: Iterable[str]) -> None:
    if value and value not in known:
        raise ArgumentError(f"{name} {value!r} is none of {', '.join(known)}.{did_you_mean(value, known)}")
