"""A record set, read with torch's `DataLoader` as the other formats are, not with `RecordLoader`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.formats.base import Finish, Format, Reading, Samples, map_loader


def write(samples: Samples, place: Path) -> None:
    """Convert the folder that the samples are in."""
    from recordzoo.preparing.preparation import ensure
    from recordzoo.recipes.folders import FolderRecipe

    tree, records = Path(samples[0][0]).parent.parent, place / "images.records"
    ensure(FolderRecipe(), tree, records_dir=records, prepare=True, progress=_Silent())


# Any: batches.
def read(place: Path, reading: Reading) -> Iterable[Any]:
    """See `Format`."""
    from recordzoo.families.record_set import RecordDataset

    path, finish = place / "images.records", reading.finish()
    if finish.transform is not None:  # as everybody reads images
        return map_loader(RecordDataset(path, finish.transform), reading)
    return map_loader(_Bytes(path, finish), reading)


class _Bytes:
    """The stored bytes; each batch is announced to the kernel, as the datasets do."""

    def __init__(self, path: Path, finish: Finish) -> None:
        from recordzoo.records.reader import RecordReader

        self.reader, self.finish = RecordReader(path), finish
        self.labels = self.reader.array("target")

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.finish(self.reader.read("image", index)), int(self.labels[index])

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, int]]:
        self.reader.hint("image", indices)
        return [self[index] for index in indices]


class _Silent:
    def begin(self, stage: str, total_bytes: int | None = None, done_bytes: int = 0) -> None: ...
    def advance(self, num_bytes: int = 0, num_images: int = 0) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


FORMAT = Format("records", "records", write, read, "`recordzoo.open`; every value's CRC-32 is compared")
