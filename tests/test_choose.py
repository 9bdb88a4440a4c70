"""The choice of the record set that serves a tree: every combination of arguments and existing sets."""

from pathlib import Path
from typing import Any

import pytest

from recordzoo.datasets.image_folder import Candidate, candidates

WHOLE, SELECTED, GIVEN = Path("photos.records"), Path("photos-12345678.records"), Path("given.records")


def opened(path: Path) -> Candidate:
    return Candidate(path, prepare=False, whole=True)


def made(path: Path, *, whole: bool = True) -> Candidate:
    return Candidate(path, prepare=True, whole=whole)


# Any: arguments of `candidates`.
@pytest.mark.parametrize(
    ("asked", "there", "expected"),
    [
        # All images.
        ({}, [], [made(WHOLE)]),
        ({}, [WHOLE], [opened(WHOLE)]),
        ({"has_tree": False}, [WHOLE], [opened(WHOLE)]),
        ({"refresh": True}, [WHOLE], [made(WHOLE)]),
        ({"refresh": "if-changed"}, [WHOLE], [made(WHOLE)]),
        ({"refresh": "if-changed", "has_tree": False}, [WHOLE], [opened(WHOLE)]),
        ({"refresh": "if-changed"}, [], [made(WHOLE)]),
        ({"explicit": GIVEN}, [WHOLE], [made(GIVEN)]),
        ({"explicit": GIVEN}, [GIVEN], [opened(GIVEN)]),
        # Selected images: the whole tree's records if they hold them, or records of their own.
        ({"selected": SELECTED}, [], [made(SELECTED, whole=False)]),
        ({"selected": SELECTED}, [WHOLE], [opened(WHOLE), made(SELECTED, whole=False)]),
        ({"selected": SELECTED, "refresh": True}, [WHOLE], [made(SELECTED, whole=False)]),
        ({"selected": SELECTED, "refresh": "if-changed"}, [WHOLE], [made(WHOLE), made(SELECTED, whole=False)]),
        ({"selected": SELECTED, "explicit": GIVEN}, [WHOLE], [made(GIVEN, whole=False)]),
        ({"selected": SELECTED, "explicit": GIVEN}, [GIVEN], [opened(GIVEN)]),
        ({"selected": SELECTED, "explicit": GIVEN, "refresh": "if-changed"}, [GIVEN], [made(GIVEN, whole=False)]),
    ],
)
def test_candidates(asked: dict[str, Any], there: list[Path], expected: list[Candidate]) -> None:
    assert candidates(there.__contains__, WHOLE, **asked) == expected
