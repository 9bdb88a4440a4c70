"""Progress that does something of its own."""

from pathlib import Path

import recordzoo
from tests.fakes.samples import jpeg


class Publishes:
    """A `Progress` in whose sight another program publishes a record set at the same place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None:
        if not self.path.exists():
            other = self.path.with_name("other.records")
            with recordzoo.RecordWriter(other) as writer:
                writer.write({"image": jpeg(99), "target": 99})
            other.rename(self.path)  # a program that knows nothing of our locks

    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass
