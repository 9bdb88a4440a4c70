"""Opening a stranger's record set as a dataset, in a process that is watched and limited.

``python -m tests.fakes.strangers SET`` prints, as JSON, what each sample is, and what the process did that it must not.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from recordzoo.datasets import ImageFolderRecord
from tests.fakes.damage import Watch
from tests.running import python

WALL_S = 60.0
_ADDRESS_SPACE_BYTES = 4 << 30


def limit() -> None:
    """Give this process a few gigabytes and a minute: who takes more is killed, or gets no memory."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # absent on Windows

    resource.setrlimit(resource.RLIMIT_AS, (used + _ADDRESS_SPACE_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(WALL_S),) * 2)
    signal.setitimer(signal.ITIMER_REAL, WALL_S)


# Any: images.
def outcome(load: Callable[[], Any]) -> tuple[str, str]:
    """Load an image: ("", SHA-256 of its pixels), or ("OSError" or the error's type, "")."""
    try:
        image = load()
    except OSError:
        return "OSError", ""
    except Exception as err:  # noqa: BLE001 - which one is compared with torchvision's
        return type(err).__name__, ""
    return "", hashlib.sha256(image.tobytes()).hexdigest()


def read_all(folder: Path) -> list[tuple[str, str]]:
    """Take every sample of a set of images."""
    dataset = ImageFolderRecord(folder)
    return [outcome(lambda index=index: dataset[index][0]) for index in range(len(dataset))]  # type: ignore[misc]


# Any: what it prints.
def run(folder: Path) -> dict[str, Any]:
    """Read a set in a process of its own, which must live."""
    done = python("-m", "tests.fakes.strangers", folder)
    assert done.returncode == 0, f"died with {done.returncode}: {done.stderr[-3000:]}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(folder: Path) -> None:
    # What Pillow imports when it needs it is no stranger's.
    Image.init()
    watch = Watch()
    read_all(folder)  # twice: what it imports the first time is ours
    limit()
    with watch():
        found = read_all(folder)
    print(json.dumps({"samples": found, "did": watch.seen}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
