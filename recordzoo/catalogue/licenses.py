"""Licenses in a few words, for tables of datasets: the name of a license, and the group it belongs to.

A group repeats what the entry's text says. It is not legal advice.
"""

import re

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
