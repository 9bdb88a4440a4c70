"""The samples of a dataset as raw data: inspected, cut into ranges, read and encoded in worker processes."""

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import cloudpickle
import numpy as np

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError, SampleError
from recordzoo.own.plans import Encoded, Kind, at_position, update
from recordzoo.own.schema import BLOCK, Rows, Schema, SchemaRecipe
from recordzoo.raw.member import Member, Source, Unit
from recordzoo.recipes.recipe import Blob, Sidecar

_LOOKED_AT = 64
_TWICE = 8


class MapStyle(Protocol):
    """The methods of a dataset that `convert` calls: those of `torch.utils.data.Dataset`, and a length."""

    def __len__(self) -> int: ...

    # Any: samples are whatever the dataset gives.
    def __getitem__(self, index: int, /) -> Any: ...


class Probe:
    """Samples spread over a dataset.

    Attributes:
        samples: The samples, by position.
    """

    samples: Mapping[int, Any]  # Any: samples

    def __init__(self, dataset: MapStyle) -> None:
        self.count = len(dataset)
        positions = np.linspace(0, self.count - 1, min(self.count, _LOOKED_AT)).round().astype(int)
        self.samples = {position: read(dataset, position) for position in np.unique(positions).tolist()}

    @functools.cached_property
    def digest(self) -> str:
        """Changes when one of them does, or the number of all.

        Raises:
            SampleError: A sample cannot be stored.
        """
        digest = hashlib.sha256(str(self.count).encode())
        for position, sample in self.samples.items():
            with at_position(position):
                update(digest, sample)
        return digest.hexdigest()

    def check_repeats(self, dataset: MapStyle) -> None:
        """Read some samples again and compare them.

        Raises:
            ArgumentError: They have changed.
        """
        for position in list(self.samples)[:: max(1, len(self.samples) // _TWICE)]:
            before, now = hashlib.sha256(), hashlib.sha256()
            update(before, self.samples[position])
            update(now, read(dataset, position))
            if before.digest() != now.digest():
                raise ArgumentError(
                    f"{type(dataset).__name__}[{position}] gives another sample each time it is asked for. Convert it "
                    "without its random transforms, and apply them when the records are read."
                )


# Any: a sample.
def read(dataset: MapStyle, position: int) -> Any:
    """Read a sample of a dataset; an error of the dataset gets the position as a note.

    Raises:
        SampleError: It raised an `OSError`, which would be taken for one of the disk that the records go to.
    """
    try:
        return dataset[position]
    except OSError as err:
        raise SampleError(
            f"position {position}: {type(dataset).__name__} raised {type(err).__name__}: {err}", position=position
        ) from err
    except Exception as err:
        err.add_note(f"while reading sample {position} of {type(dataset).__name__}")
        raise


_in_worker: dict[str, MapStyle] = {}


def _bring(token: str, payload: bytes) -> None:
    """In a worker process: unpack the dataset, once."""
    _in_worker[token] = cloudpickle.loads(payload)


class SampleRecipe(SchemaRecipe):
    """A dataset's samples. A pickled copy of it has no dataset: a worker process has that already."""

    def __init__(
        self,
        dataset: MapStyle,
        payload: bytes,
        schema: Schema,
        probe: Probe,
        kinds: Mapping[str, Kind],
        classes: Sequence[str] | None,
        output: Path,
    ) -> None:
        metadata = {"samples": probe.digest, "kinds": dict(kinds), "origin": type(dataset).__qualname__}
        self._num_labels = None if classes is None else len(classes)  # the dataset's own may be something else
        names = _classes(dataset) if classes is None else classes
        super().__init__(schema, len(dataset), names, metadata, output, max(6, len(str(len(dataset) - 1))))
        self.origin = "samples"
        self._dataset: MapStyle | None = dataset
        self.payload = payload
        self._probe: Probe | None = probe
        self._sample_bytes: dict[str, int] = {}

    # Any: what pickle keeps.
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_dataset": None, "payload": b"", "_probe": None}

    @property
    def options(self) -> Mapping[str, JSON]:
        """See `Recipe`."""
        return {"schema": self.schema.identity(), "classes": self.classes}

    @property
    def token(self) -> str:
        """The key of the dataset in a worker process."""
        return str(self.metadata["samples"])

    def worker_setup(self) -> Callable[[], None] | None:
        """See `Recipe`: bring the dataset."""
        return functools.partial(_bring, self.token, self.payload)

    def command(self, root: Path) -> str:
        """See `Recipe`."""
        return f"recordzoo.convert(dataset, {str(self.output)!r})"

    def find(self, root: Path) -> Source | None:
        """See `Recipe`: inspect the dataset, again on each call but the first."""
        assert self._dataset is not None
        probe, self._probe = self._probe or Probe(self._dataset), None
        return self.source(probe)

    def source(self, probe: Probe) -> "SampleSource":
        """Return the dataset as raw data; its size is estimated from the samples that were looked at."""
        if probe.digest not in self._sample_bytes:
            sizes = []
            for position, sample in probe.samples.items():
                sizes.append(self._encode(position, sample).size_bytes)
            self._sample_bytes[probe.digest] = max(1, sum(sizes) // len(sizes))
        return SampleSource(self.metadata["origin"], self.count, probe.digest, self._sample_bytes[probe.digest])

    # Any: a sample.
    def _encode(self, position: int, sample: Any) -> Encoded:
        """Encode a sample."""
        with at_position(position):
            encoded = self.schema.encode(sample)
            label = encoded.row.get("target")
            if self._num_labels is None or label is None or label.ndim or label.dtype.kind not in "iu":
                return encoded
            if not 0 <= int(label) < self._num_labels:
                raise SampleError(
                    f"'target' {label} is not a label: with {self._num_labels} classes, labels are 0 to "
                    f"{self._num_labels - 1}"
                )
        return encoded

    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        """See `Recipe`: a member stands for some samples."""
        dataset = self._dataset if self._dataset is not None else _in_worker[self.token]
        rows = Rows()
        start, _, stop = member.name.partition("-")
        for position in range(int(start), int(stop)):
            encoded = self._encode(position, read(dataset, position))
            yield from self.blobs(position, encoded)
            yield from rows.add(position, encoded)
        yield from rows.rest()


@dataclass(frozen=True)
class SampleSource:
    """A dataset that is cut into ranges of positions.

    Attributes:
        name: Its class.
        count: How many samples it has.
        digest: The hash of some of the samples.
        sample_bytes: Estimated size of a stored sample.
    """

    name: str
    count: int
    digest: str
    sample_bytes: int

    @property
    def description(self) -> str:
        """See `Source`."""
        return f"{self.name} ({self.count:,} samples)"

    @property
    def size_bytes(self) -> int:
        """See `Source`."""
        return self.count * self.sample_bytes

    def fingerprint(self) -> str:
        """See `Source`."""
        return self.digest

    def files(self) -> None:
        """See `Source`: unknown for a dataset."""

    def records_bytes(self, expansion: float, cost: Callable[[int], int]) -> int:
        """See `Source`."""
        return int(self.size_bytes * expansion)

    def units(self, target_bytes: int) -> list[Unit]:
        """See `Source`."""
        step = max(1, target_bytes // self.sample_bytes)
        return self._ranges([*range(0, self.count, step), self.count])

    def cut(self, num_units: int) -> list[Unit]:
        """See `Source`.

        Raises:
            ArgumentError: There are fewer samples.
        """
        if num_units > self.count:
            raise ArgumentError(f"{num_units} shards are asked for, but {self.name} has only {self.count} samples.")
        return self._ranges([self.count * number // num_units for number in range(num_units + 1)])

    def _ranges(self, bounds: Sequence[int]) -> list[Unit]:
        return [_Range(a, b, self.sample_bytes) for a, b in itertools.pairwise(bounds)]


@dataclass(frozen=True)
class _Range:
    """Some consecutive samples; its members are named for shorter ranges of positions."""

    start: int
    stop: int
    sample_bytes: int

    @property
    def size_bytes(self) -> int:
        """See `Unit`."""
        return (self.stop - self.start) * self.sample_bytes

    @property
    def stamp(self) -> str:
        """See `Unit`: unknown for a dataset."""
        return ""

    def members(self) -> Iterator[Member]:
        """See `Unit`."""
        for start in range(self.start, self.stop, BLOCK):
            stop = min(start + BLOCK, self.stop)
            yield Member(f"{start}-{stop}", (stop - start) * self.sample_bytes, _nothing)


def _nothing() -> bytes:
    return b""


def _classes(dataset: Any) -> list[str] | None:  # Any: a dataset of whatever class
    for holder in (dataset, getattr(dataset, "dataset", None)):  # a Subset's
        classes = getattr(holder, "classes", None)
        if isinstance(classes, list | tuple) and classes and all(isinstance(name, str) for name in classes):
            return list(classes)
    return None
