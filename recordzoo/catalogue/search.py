"""Which datasets fit: licenses, read from their texts, and the search by words, task, size and source."""

import re
from collections.abc import Iterable

from recordzoo import catalogue
from recordzoo.base.text import did_you_mean
from recordzoo.catalogue import CHECKED, OBTAINED, Entry
from recordzoo.errors import ArgumentError

NOT_STATED = "not stated"
LIMITED = "research or non-commercial use"
OPEN = "open license"
OTHER = "other or several terms"
GROUPS = (OPEN, LIMITED, OTHER, NOT_STATED)

_NAME = re.compile(
    r"(?P<name>Apache-2\.0|BSD 3-Clause|BSD-style|CC0( 1\.0)?|CC BY[A-Z-]* \d\.\d|MIT|Public domain)"
    r"(?P<repository> \(repository license)?(?P<note> \([^)]*\)$)?(?P<more>.*)"
)
_LIMITS = re.compile(r"non-commercial|research|-NC\b|fair use|must not be sold", re.IGNORECASE)


def group(text: str) -> str:
    """Return one of `GROUPS`."""
    if text.startswith("Not stated"):
        return NOT_STATED
    if _LIMITS.search(text):
        return LIMITED
    named = _NAME.fullmatch(text)
    return OPEN if named and not named["repository"] and not named["more"] and "-ND" not in text else OTHER


def terms(text: str) -> list[str]:
    """Return the words by which a license is found: its group, its name, and the name without a version."""
    named = name(text)
    return list(dict.fromkeys(filter(None, (group(text), named, re.sub(r" \d\.\d$", "", named)))))


def name(text: str) -> str:
    """Return the name of the license that a text begins with; "" if that has none."""
    named = _NAME.fullmatch(text)
    return named["name"] if named else ""


def shown(text: str) -> str:
    """Return the cell of the table: the name, and whether there is more to know; else the group."""
    named = _NAME.fullmatch(text)
    if not named:
        return "other terms" if group(text) == OTHER else group(text)
    if named["repository"]:
        return f"{named['name']} (of the repository)"
    return named["name"] + (" and other terms" if named["more"] else "")


def list_datasets(
    *words: str, task: str = "", license: str = "", obtained: str = "", checked: str = "", max_bytes: int | None = None
) -> list[str]:
    """List the names of the datasets that recordzoo knows, sorted; with arguments, of those that fit all of them.

    Args:
        *words: Texts in the name, title, summary, task or class names.
        task: One of the dataset's tasks: "detection".
        license: The group of the license, as on the site ("open license"), or its name, with or without version
            ("MIT", "CC BY-SA", "CC BY-SA 4.0").
        obtained: How the raw files are had: "download", "terms" (accepted first), "partly" (rest by hand) or "by-hand".
        checked: How the recipe was checked: "bytes", "lists" or "layout".
        max_bytes: The largest download in bytes. A dataset of unknown size does not fit.

    Raises:
        ArgumentError: An argument is none of its values; the message begins with the argument's name.

    Examples:
        >>> import recordzoo
        >>> "cub200" in recordzoo.list_datasets()
        True
        >>> recordzoo.list_datasets("flowers", task="classification", max_bytes=10**9)
        ['flowers102']
    """
    entries = list(map(catalogue.entry, catalogue.names()))
    licenses = {each for entry in entries for each in terms(entry.license)}.difference(GROUPS)
    task = _known("task", task, sorted({each for entry in entries for each in tasks(entry)}))
    license = _known("license", license.removeprefix("any "), [*GROUPS, *sorted(licenses)])
    obtained = _known("obtained", obtained, [how.replace(" ", "-") for how in OBTAINED])
    checked = _known("checked", checked, CHECKED)
    return [
        entry.name
        for entry in entries
        if task in ("", *tasks(entry))
        and license in ("", *terms(entry.license))
        and obtained in ("", entry.obtained.replace(" ", "-"))
        and checked in ("", entry.checked.by)
        and (max_bytes is None or (entry.size_bytes is not None and entry.size_bytes <= max_bytes))
        and all(word.lower() in searched_text(entry) for word in words)
    ]


def searched_text(entry: Entry) -> str:
    """Return the text of a dataset in which words are looked up, in lower case; the site uses it, too."""
    return " ".join([entry.name, entry.title, entry.summary, entry.task, *entry.class_names]).lower()


def tasks(entry: Entry) -> list[str]:
    """Split a dataset's task into the words by which it is found."""
    return entry.task.split(", ")


def _known(name: str, value: str, known: Iterable[str]) -> str:
    """Return a value as it is known, whatever its case; "" for no value."""
    spelt = {each.lower(): each for each in known}
    if value and value.lower() not in spelt:
        raise ArgumentError(f"{name} {value!r} is none of {', '.join(known)}.{did_you_mean(value, known)}")
    return spelt.get(value.lower(), "")
