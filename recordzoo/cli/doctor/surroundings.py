"""What comes from outside: proxies and environment variables, never with the logins in them."""

import os
import re
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from recordzoo import settings
from recordzoo.addresses import public_url
from recordzoo.errors import ArgumentError
from recordzoo.meant import did_you_mean

_PREFIX = "RECORDZOO_"
_OTHERS = ("RECORDZOO_KILL_AT",)
"""Variables that are read elsewhere: this one is for tests."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable of recordzoo that is set.

    Attributes:
        name: What it is called.
        value: Its value, without a login.
        problem: Why it is of no use: there is no such variable, or the value is wrong. "" if it is.
    """

    name: str
    value: str
    problem: str = ""


def proxies() -> dict[str, str]:
    """Return the proxies that downloads go through, by scheme, without their logins; "no" are the hosts without."""
    return {scheme: public_url(address) for scheme, address in sorted(urllib.request.getproxies().items())}


def variables() -> list[Variable]:
    """Return recordzoo's variables that are set, each checked as it is where it is read."""
    readers = known_variables()
    found = []
    for name in sorted(name for name in os.environ if name.startswith(_PREFIX) and name not in _OTHERS):
        problem = ""
        if name not in readers:
            problem = f"recordzoo has no such variable.{did_you_mean(name, readers)}"
        else:
            try:
                readers[name]()
            except ArgumentError as err:
                problem = str(err)
        found.append(Variable(name, public_url(os.environ[name]), problem))
    return found


def known_variables() -> dict[str, Callable[[], object]]:
    """Return the function of `recordzoo.settings` that reads each variable: its docstring names the variable."""
    found: dict[str, Callable[[], object]] = {}
    for function in vars(settings).values():
        match = re.search(r"``(RECORDZOO_\w+)``", getattr(function, "__doc__", None) or "")
        if match and callable(function):
            found[match[1]] = function
    return found
