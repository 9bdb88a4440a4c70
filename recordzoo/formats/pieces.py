"""The pieces of a foreign dataset as a source: units of consecutive pieces, each piece a member."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from recordzoo.formats.base import Foreign, Piece
from recordzoo.raw.member import Member, Unit
from recordzoo.raw.sized import SizedSource


@dataclass(frozen=True)
class ForeignSource(SizedSource):
    """The pieces of a foreign dataset."""

    foreign: Foreign

    @property
    @override
    def description(self) -> str:
        return self.foreign.location

    @override
    def member_sizes(self) -> Sequence[int]:
        return self.foreign.sizes()

    def fingerprint(self) -> str:
        """See `Source`."""
        return self.foreign.files(self.foreign.pieces).fingerprint(self.foreign.identity().encode())

    def files(self) -> None:
        """See `Source`: pieces stand for their samples."""

    @override
    def unit(self, start: int, stop: int) -> Unit:
        pieces = tuple(self.foreign.cut(start, stop))
        table = self.foreign.files(pieces)
        return _Pieces(start, pieces, table.stamp(0, len(table)))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Some consecutive pieces; see `Unit`."""

    start: int
    pieces: tuple[Piece, ...]
    stamp: str

    @property
    def size_bytes(self) -> int:
        """See `Unit`."""
        return sum(piece.size_bytes for piece in self.pieces)

    def members(self) -> Iterator[Member]:
        """See `Unit`."""
        for number, piece in enumerate(self.pieces, self.start):
            yield PieceMember(f"{number:012d}", piece.size_bytes, bytes, piece)


@dataclass(frozen=True, slots=True)
class PieceMember(Member):
    """A piece as a member; its name is its number."""

    piece: Piece
