"""The owner of a file that is being written: an identity in its name, which proves that its process is gone.

An identity reads ``host-pid-start-token``. The host part tells machines, boots and process namespaces apart; the start
time tells a process from a later one with the same number; the token tells two uses in one process apart.
"""

import functools
import hashlib
import os
import re
import secrets
import socket
from dataclasses import dataclass

from recordzoo.system.processes import exists, scope, start_time

_PATTERN = re.compile(r"(?P<host>[0-9A-Za-z_]+)-(?P<pid>[0-9]+)-(?P<start>[0-9]+)-(?P<token>[0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a host. `str()` gives its form in file names; `parse` reads it back."""

    host: str
    pid: int
    start: int
    token: str

    def __str__(self) -> str:
        return f"{self.host}-{self.pid}-{self.start}-{self.token}"

    @staticmethod
    def current() -> "Owner":
        """Return a new identity of this process; every call has another token."""
        pid = os.getpid()
        return Owner(_host(), pid, start_time(pid) or 0, secrets.token_hex(4))

    @staticmethod
    def parse(text: str) -> "Owner | None":
        """Read an identity from the end of a file name; None if it is not one."""
        match = _PATTERN.fullmatch(text)
        return Owner(match["host"], int(match["pid"]), int(match["start"]), match["token"]) if match else None

    @property
    def can_be_asked_for(self) -> bool:
        """Whether this process can check that it lives: it is of this host, container and boot."""
        return self.host == _host()

    def is_gone(self) -> bool:
        """Whether the process provably no longer exists; False if this cannot be checked (another host)."""
        if not self.can_be_asked_for:
            return False
        if not exists(self.pid):
            return True
        start = start_time(self.pid)
        return start is not None and self.start != 0 and start != self.start

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    @property
    def description(self) -> str:
        """For messages: ``process 4123 on node07``."""
        return f"process {self.pid} on {self.host.rsplit('_', 1)[0]}"


@functools.cache
def _host() -> str:
    name = re.sub(r"[^0-9A-Za-z]+", "_", socket.gethostname())[:40].strip("_") or "host"
    return f"{name}_{hashlib.sha256(_scope().encode()).hexdigest()[:8]}"


def _scope() -> str:
    """The scope in which process numbers are unique."""
    return "/".join([socket.gethostname(), *scope()])
