"""Find datasets by task, license, size, check and words."""

from collections.abc import Iterable, Sequence

from recordzoo.base.meant import did_you_mean
from recordzoo.catalogue import licenses
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
        words: Texts in the name, title, summary, task or class names.
        task: One of the dataset's tasks: "detection".
        license: The group of the license, as on the site ("open license"), or its name, with or without version
            ("MIT", "CC BY-SA", "CC BY-SA 4.0").
        obtained: How the raw files are had: "download", "terms", "partly" or "by-hand".
        checked: How the recipe was checked: "bytes", "lists" or "layout".
        max_bytes: The largest download. A dataset of unknown size does not fit.

    Raises:
        ArgumentError: An argument is none of its values; the message begins with the argument's name.
    """
    entries = list(entries)
    names = {each for entry in entries for each in licenses.terms(entry.license)}.difference(licenses.GROUPS)
    task = _known("task", task, sorted({each for entry in entries for each in tasks(entry)}))
    license = _known("license", license.removeprefix("any "), [*licenses.GROUPS, *sorted(names)])
    obtained = _known("obtained", obtained, [how.replace(" ", "-") for how in OBTAINED])
    checked = _known("checked", checked, CHECKED)
    return [
        entry
        for entry in entries
        if task in ("", *tasks(entry))
        and license in ("", *licenses.terms(entry.license))
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
