"""The fault catalogue: a test says which fault it tries, and the site's page of faults is made from that.

    @fault("D3", "the body is shorter than its Content-Length", "the rest is asked for; an error if it never comes")
    def test_a_short_body_is_resumed(...): ...

    @fault("D3")  # another test of the same fault
    def test_...

Numbers: a letter for the place, and a number. The first two texts are what the page shows, once for each fault: what
happens to a person, and what they then see. `docs/parts/faults.py` reads them out of the source, without importing it.
"""

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable)

PLACES = {
    "D": ("While downloading", 32),
    "A": ("In an archive", 14),
    "I": ("In an image", 10),
    "C": ("While converting", 22),
    "K": ("Disks and file systems", 14),
    "P": ("Many processes", 18),
    "H": ("Damaged and hostile record sets", 21),
    "U": ("Arguments", 12),
    "S": ("In object storage", 10),
    "F": ("In files of other formats", 10),
    "E": ("While exporting", 5),
    "L": ("While loading plain files", 5),
}
"""For each letter the heading, and how many faults there are at least, numbered from 1."""

NOT_TRIED: dict[str, tuple[str, str]] = {
    "H10": (
        "py-lmdb is built upon the system's LMDB, without its hardening against forged files",
        "no such build is at hand; images are read without LMDB, and `verify --full` asks it in another process (H9)",
    ),
}
"""Faults that no test tries: what happens, and why there is no test."""


def fault(number: str, what: str = "", seen: str = "") -> Callable[[Test], Test]:
    """Say that a test tries a fault; `what` happens and what is `seen` stand at one of its tests."""
    assert number[0] in PLACES, number
    assert number[1:].isdigit(), number
    assert bool(what) == bool(seen), number

    def mark(test: Test) -> Test:
        return test

    return mark
