"""`Output`: what is published, and how a complete output is recognised."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import is_record_set
from recordzoo.system.files import is_link

RECORDS_DIR = "pass another records_dir (--output)"
"""How the user of a preparation chooses another place."""

ANOTHER_PATH = "write to another path"
"""How the user of a function that writes a record set chooses another place."""


@dataclass(frozen=True)
class Output:
    """A file or a directory that appears by one rename.

    Attributes:
        path: Its final path, absolute.
        is_whole: Whether a path holds such an output, whole.
        marker: The file without which the directory is no such output; removed first, written last.
        file: If the output is one file: its name in the build.
        elsewhere: What the user can do to choose another place, as part of a sentence.
        is_resumable: Whether the same command goes on with a build that was interrupted.
    """

    path: Path
    is_whole: Callable[[Path], bool] = is_record_set
    marker: str = MANIFEST_NAME
    file: str = ""
    elsewhere: str = RECORDS_DIR
    is_resumable: bool = True

    @property
    def is_there(self) -> bool:
        """Whether it is published."""
        return self.is_whole(self.path)


def behind_links(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of an output; of a link, where it leads: a link cannot be renamed for its directory."""
    place = Path(path).expanduser().absolute()
    return Path(os.path.realpath(place)) if is_link(place) else place
