"""Find images that cannot be decoded."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.progress import Progress
from recordzoo.preview.choose import Choice
from recordzoo.preview.thumbnail import Thumbnail, make_thumbnail
from recordzoo.recipes.images import quiet
from recordzoo.records.reader import RecordReader

AT_MOST = 20_000
"""Number of images decoded by default."""

_CHUNK = 256
_THREADS = 4  # Pillow decodes without Python's lock
_SMALL = (32, 32)


def find_broken(
    reader: RecordReader,
    field: str,
    found: NDArray[np.int64],
    *,
    number: int,
    seed: int,
    progress: Progress,
    at_most: int | None = AT_MOST,
) -> Choice:
    """Decode images until `number` broken ones are found: first those that the manifest names, then the others.

    Args:
        found: The positions to look at.
        at_most: Maximum number of others, chosen at random. None: all.
    """
    named = np.array(sorted(_named(reader, found)), np.int64)
    others = found[~np.isin(found, named)]
    if at_most is not None and len(others) > at_most:
        others = np.sort(np.random.default_rng(seed).permutation(others)[:at_most])
    broken: list[int] = []
    looked_at = 0
    progress.begin("finding broken images", int(reader.lengths(field)[[*named, *others]].sum()))
    for thumbnail in _small_ones(reader, field, [*named.tolist(), *others.tolist()]):
        looked_at += 1
        progress.advance(thumbnail.num_bytes, 1)
        if thumbnail.problem in ("broken", "damaged"):
            broken.append(thumbnail.position)
            if len(broken) == number:
                break
    progress.end()
    return Choice(broken, looked_at)


def _named(reader: RecordReader, found: NDArray[np.int64]) -> Iterator[int]:
    """Find the positions of the images that the manifest lists as bad, by name or raw file name."""
    bad = reader.manifest.bad
    if not bad:
        return
    wanted = set(found.tolist())
    for position, name in enumerate(reader.names):
        stem = name.rpartition("/")[2].rpartition(".")[0]
        if (name in bad or stem in bad) and position in wanted:
            yield position


def _small_ones(reader: RecordReader, field: str, positions: Sequence[int]) -> Iterator[Thumbnail]:
    """Make thumbnails in threads, in order, a few in advance."""

    def make(position: int) -> Thumbnail:
        return make_thumbnail(reader, field, position, _SMALL, enlarge=False)

    with quiet(), ThreadPoolExecutor(_THREADS) as threads:
        for start in range(0, len(positions), _CHUNK):
            chunk = positions[start : start + _CHUNK]
            reader.hint(field, chunk)
            yield from threads.map(make, chunk)
