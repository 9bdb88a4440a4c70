"""What holds for every test: nothing reaches beyond this machine, and the caller's environment does not count."""

import ipaddress
import os
import signal
import sys

import pytest
from hypothesis import settings

# The same examples each time: a failure belongs to the change that is tested, not to the day.
settings.register_profile("recordzoo", derandomize=True, deadline=None)
settings.load_profile("recordzoo")

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def _refuse_strangers(event: str, arguments: tuple) -> None:
    """Stop any connection that is not to this machine (https://docs.python.org/3/library/audit_events.html)."""
    if event != "socket.connect":
        return
    address = arguments[1]
    if isinstance(address, tuple) and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        raise RuntimeError(f"a test tried to reach {address}")


sys.addaudithook(_refuse_strangers)

# A shell starts what it puts into the background with Ctrl-C ignored, and that is inherited by everything below.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("RECORDZOO_") or name.lower() in _PROXIES:
            monkeypatch.delenv(name)
    # For child processes, which the hook does not reach: whatever is not on this machine is behind a closed door.
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
