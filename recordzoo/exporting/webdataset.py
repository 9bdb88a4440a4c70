"""WebDataset: tar files in which the files of a sample are neighbours and have one name up to its first dot.

The endings say what a file is: ``.jpg``, ``.cls`` (the label as text), ``.json``, ``.npy`` (webdataset/autodecode.py,
and `base_plus_ext` of webdataset/tariterators.py).
"""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from recordzoo.exporting.names import split_ending, unique
from recordzoo.exporting.samples import Sample
from recordzoo.exporting.target import Shard, Target, Tick, Written, json_line, sync
from recordzoo.recipes.images import sniffed_ending

_UNKNOWN = ".bin"


class WebDataset(Target):
    """See `Target`: ``train-000000.tar``, ``train-000001.tar``, ..."""

    name = "webdataset"

    @override
    def paths(self, split: str, positions: NDArray[np.int64]) -> list[str]:
        names = (split_ending(self.content.reader.names[position])[0] for position in positions.tolist())
        return unique(names, [""] * len(positions), whole=True, dots=False)

    @override
    def write(self, shard: Shard, folder: Path, tick: Tick) -> Written:
        name = f"{shard.split or 'data'}-{shard.number:06d}.tar"
        with open(folder / name, "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for number, sample in self.samples(shard, tick):
                    for ending, data in self._files(sample):
                        entry = tarfile.TarInfo(f"{shard.paths[number]}{ending}")
                        entry.size = len(data)
                        archive.addfile(entry, io.BytesIO(data))
            sync(file)
            return Written({name: file.tell()})

    def _files(self, sample: Sample) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a sample: ending and bytes."""
        yield sample.ending or _UNKNOWN, sample.image
        if sample.label is not None:
            yield ".cls", str(sample.label).encode()
        about = {"name": sample.name, **({"class": sample.class_name} if self.content.classes else {})}
        for field in self.content.fields:
            value = sample.fields[field.name]
            if field.kind in ("json", "numbers"):
                about[field.name] = value
            elif value is None:
                continue
            elif field.kind == "raw":
                buffer = io.BytesIO()
                np.save(buffer, value, allow_pickle=False)
                yield f".{field.name}.npy", buffer.getvalue()
            else:
                yield f".{field.name}{(field.kind == 'image' and sniffed_ending(value)) or _UNKNOWN}", value
        yield ".json", json_line(about)
