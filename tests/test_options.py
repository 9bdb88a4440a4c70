"""The options of dataset classes, functions and the command line: each stands once, and is checked once."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from recordzoo.errors import ArgumentError
from recordzoo.preparing.options import Options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on_error": "ignore"}, r"'ignore' for argument on_error \(--on-error\)\. Valid values are keep, skip, raise"),
        ({"refresh": "always"}, "Unknown value 'always' for argument refresh"),
        ({"workers": 0}, "workers is 0; it must be a whole number, 1 or more"),
        ({"shard_bytes": 1e6}, "shard_bytes is 1000000.0; it must be a whole number"),
        ({"shard_bytes": 1, "num_shards": 1}, "shard_bytes and num_shards .* are both given"),
        ({"executor": Mock(spec=["get_executor"])}, r"executor is 'Mock'; .* Pass client\.get_executor\(\)"),
        ({"executor": 3}, r"executor is 'int'; it must be a concurrent\.futures\.Executor\.$"),
    ],
)
def test_values_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Options.of(given, "prepare()")


def test_a_change_is_checked_too() -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(ArgumentError, match="workers=2 and executor are both given"):
        dataclasses.replace(Options(workers=2), executor=executor)
