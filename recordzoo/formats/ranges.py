"""Rows of a table, cut into pieces: what the formats have in common whose samples are found by their number."""

from collections.abc import Iterator

PIECE_SAMPLES = 256
"""At most so many samples are a piece: as many as share a file of numbers while they are converted."""

_PIECE_BYTES = 16 << 20


def ranges(count: int, sample_bytes: int, step: int = 1) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of pieces of up to 256 samples and about 16 MiB, at least one step each.

    Args:
        count: How many samples there are.
        sample_bytes: About how many bytes one has.
        step: Pieces begin at multiples of it, where samples are compressed in groups.
    """
    wanted = max(1, min(PIECE_SAMPLES, _PIECE_BYTES // max(1, sample_bytes)))
    length = max(step, wanted // step * step)
    for start in range(0, count, length):
        yield start, min(start + length, count)
