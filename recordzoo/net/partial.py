"""`PartialFile`: the part of a download. Its states are in docs/decisions/downloads.md."""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from typing_extensions import override

from recordzoo.base import durable
from recordzoo.base.owner import Owner
from recordzoo.base.progress import Progress
from recordzoo.net.part import Part, claim, is_abandoned
from recordzoo.system.files import rename, replace

CHECKING = "checking what is there of"
"""Prefix of the name of the stage that reads an earlier run's bytes."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A server's description of the file that the bytes come from; equal stamps mean equal files."""

    url: str
    etag: str = ""
    last_modified: str = ""

    @property
    def validator(self) -> str:
        """The value for `If-Range`: a strong ETag, else the date (RFC 9110, section 13.1.5), else ""."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


class PartialFile(Part):
    """The part of a download, owned by this process until it is published or handed back.

    Use it as a context manager: however the block ends, received bytes are kept for the next process.

    Args:
        target: The final name. The longest abandoned part of it is taken over.
        algorithm: The hash's name in hashlib; None for no hash.

    Attributes:
        stamp: The file that the bytes come from; None if it is unknown, or more than one file.
    """

    def __init__(self, target: Path, algorithm: str | None) -> None:
        self._target = target
        ours = _name(target, str(Owner.current()))
        taken = claim((path for path in leftovers(target) if path.suffix != ".json"), ours)
        if taken is None:
            open(ours, "xb").close()
        else:
            with contextlib.suppress(FileNotFoundError):
                rename(_side(taken), _side(ours))
        super().__init__(ours, algorithm)
        self._owned = True
        self.stamp = self._read_stamp()

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The block's own error matters more. A part that keeps its name is taken over after this process ends.
        with contextlib.suppress(OSError):
            self._file.close()  # first: Windows does not rename open files
            if self._owned:
                self._hand_back()

    def check_present(self, progress: Progress) -> None:
        """Hash the bytes of an earlier process, with progress.

        Raises:
            OSError: As `hash_present`.
        """
        if self._hash is not None:
            progress.begin(f"{CHECKING} {self._target.name}", self.size_bytes)
            self.hash_present(progress.advance)
            progress.end()

    @override
    def start_over(self, stamp: Stamp | None = None) -> None:
        """Drop all bytes; the next ones come from the file that `stamp` describes."""
        super().start_over()
        self._set_stamp(stamp)

    def go_on(self, *, same_file: bool) -> None:
        """Keep the bytes before another answer's are appended. Unless both are of the same file, drop the stamp."""
        if not same_file:
            self._set_stamp(None)

    def publish(self) -> None:
        """Give the file its final name, durably, and remove abandoned parts of it.

        Raises:
            OSError: As `sync`, or another process took the part over.
        """
        if not self._target.exists():
            self.touch()
            self.sync()
        self._file.close()  # Windows does not rename open files
        if self._target.exists():  # another process was faster; its file stays
            durable.remove(self.path)
        else:
            self._name_it()
        self._owned = False
        durable.remove(_side(self.path))
        for left in leftovers(self._target):
            with contextlib.suppress(OSError):  # another user's file; harmless
                durable.remove(left)

    def _name_it(self) -> None:
        try:
            durable.rename(self.path, self._target)
        except FileExistsError:  # another process was faster: on Windows a rename never replaces
            durable.remove(self.path)

    def put_aside(self, found: str) -> Path:
        """Keep the wrong bytes under a ``.bad-`` name, and continue with an empty part."""
        aside = self._target.with_name(f"{self._target.name}.bad-{found[:8]}")
        self._file.close()
        replace(self.path, aside)
        self._file = open(self.path, "xb", buffering=0)  # noqa: SIM115 - lives as long as this object
        self.start_over()
        return aside

    def _hand_back(self) -> None:
        unowned = _name(self._target)
        left = unowned.stat().st_size if unowned.exists() else 0
        if self.size_bytes > left:
            if self.stamp is None:
                durable.remove(_side(unowned))
            else:
                replace(_side(self.path), _side(unowned))
            replace(self.path, unowned)
        else:
            durable.remove(_side(self.path))
            durable.remove(self.path)

    def _set_stamp(self, stamp: Stamp | None) -> None:
        self.stamp = stamp
        if stamp is None:
            durable.remove(_side(self.path))
            return
        facts = {
            "url": stamp.url,
            "etag": stamp.etag,
            "last_modified": stamp.last_modified,
            # The part and this file move by two renames; another process may write its own file between them.
            "inode": os.fstat(self._file.fileno()).st_ino,
        }
        _side(self.path).write_text(json.dumps(facts, indent=1), encoding="utf-8")

    def _read_stamp(self) -> Stamp | None:
        try:
            facts = json.loads(_side(self.path).read_text(encoding="utf-8"))
            if facts["inode"] != os.fstat(self._file.fileno()).st_ino:
                return None
            return Stamp(str(facts["url"]), str(facts["etag"]), str(facts["last_modified"]))
        except (OSError, ValueError, KeyError, TypeError):  # missing, or cut by a crash: unknown
            return None


def _name(target: Path, owner: str = "") -> Path:
    return target.with_name(f"{target.name}.part{'.' if owner else ''}{owner}")


def _side(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def leftovers(target: Path) -> list[Path]:
    """List abandoned parts and the small files beside them: released, or of dead or silent processes."""
    unowned = _name(target).name
    return [path for path in target.parent.iterdir() if path.name.startswith(unowned) and _is_left(path, unowned)]


def _is_left(path: Path, unowned: str) -> bool:
    part = path.with_name(path.name.removesuffix(".json"))
    if part.name == unowned:
        return True
    owner = Owner.parse(part.name.removeprefix(f"{unowned}."))
    return owner is not None and is_abandoned(owner, part, path)  # as old as the part's first byte
