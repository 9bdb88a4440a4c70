"""The options of dataset classes, functions and the command line: each stands once, and is checked once."""

import dataclasses
import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from recordzoo.errors import ArgumentError
from recordzoo.preparing.options import NewOptions, Options, OwnOptions, PrepareOptions


def test_users_names_are_the_fields() -> None:
    hints = PrepareOptions.__annotations__
    assert {field.name: field.type for field in dataclasses.fields(Options)} == hints
    assert OwnOptions.__annotations__.items() <= hints.items()


def test_each_name_is_described_once() -> None:
    described: list[str] = []
    for kind in (NewOptions, OwnOptions, PrepareOptions):
        described += re.findall(r"^    (\w+): ", inspect.getdoc(kind) or "", re.MULTILINE)
        assert described == list(kind.__annotations__)


def test_defaults_and_what_was_given() -> None:
    assert Options.of({}, "prepare()") == Options()
    options = Options.of({"workers": 3, "num_shards": 2, "variant": "256"}, "prepare()")
    assert options == Options(workers=3, num_shards=2, variant="256")
    assert options.layout == {"num_shards": 2}
    assert Options(shard_bytes=5).layout == {"shard_bytes": 5}
    assert Options().layout == {}


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"worker": 1}, PrepareOptions, "convert() got an unexpected keyword argument 'worker'"),
        ({"variant": "256"}, OwnOptions, "convert() got an unexpected keyword argument 'variant'"),
        ({"refresh": True}, NewOptions, "convert() got an unexpected keyword argument 'refresh'"),
    ],
)
def test_a_name_that_does_not_exist(given: dict[str, Any], kind: type[NewOptions], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        Options.of(given, "convert()", kind)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"on_error": "ignore"},
            "Unknown value 'ignore' for argument on_error (--on-error). Valid values are keep, skip, raise.",
        ),
        (
            {"refresh": "always"},
            "Unknown value 'always' for argument refresh. Valid values are (False, True, 'if-changed').",
        ),
        ({"workers": 0}, "Argument workers is 0; it must be a whole number, 1 or more."),
        ({"shard_bytes": 1e6}, "Argument shard_bytes is 1000000.0; it must be a whole number, 1 or more."),
        ({"num_shards": "4"}, "Argument num_shards is '4'; it must be a whole number, 1 or more."),
        (
            {"shard_bytes": 1, "num_shards": 1},
            "shard_bytes and num_shards (--shard-size and --shards) are both given; one follows from the other.",
        ),
        (
            {"executor": Mock(spec=["get_executor"])},
            "Argument executor is 'Mock'; it must be a concurrent.futures.Executor. Pass client.get_executor().",
        ),
        ({"executor": 3}, "Argument executor is 'int'; it must be a concurrent.futures.Executor."),
    ],
)
def test_values_are_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Options.of(given, "prepare()")
    assert str(caught.value) == message


def test_a_change_is_checked_too() -> None:
    with ThreadPoolExecutor(1) as executor, pytest.raises(ArgumentError, match="workers=2 and executor are both given"):
        dataclasses.replace(Options(workers=2), executor=executor)
