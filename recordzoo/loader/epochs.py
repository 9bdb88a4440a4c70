"""The batches of each epoch, and the user's position: of a `RecordSampler`, or of any other sampler.

A resume with another sampler iterates it again, and skips the samples that were taken.
"""

import base64
import collections
import functools
import json
import operator
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import asdict, dataclass, replace
from itertools import islice
from types import GeneratorType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DistributedSampler

from recordzoo.base.text import JSON
from recordzoo.errors import ArgumentError
from recordzoo.loader.frameworks import Ranks
from recordzoo.loader.order import whole_number
from recordzoo.loader.parts import Hint
from recordzoo.loader.samplers import CHUNK, Epoch, EpochSeed, RecordSampler, Seed, checked_state

# Any, in all of this module: samplers and keys are of any kind, a state may come from a file.

NONE = np.empty(0, np.int64)

Indices = NDArray[np.int64]

Keys = Indices | list[Any]

EpochKey = tuple[int, int]


@dataclass(frozen=True)
class Wanted:
    """A batch to make.

    Attributes:
        keys: The sampler's keys: int64 [n] if all are Python's integers, otherwise a list of what it gave.
        places: Their places in the epoch, counted over all ranks; int64 [n].
        epoch_key: Seed and epoch: random numbers are a function of these and of a sample's place. The epoch is 0 if it
            drew its seed.
        mark: Function to call when the user has received the batch.
        upcoming: Indices of the samples to prefetch now, int64 [n].
        finished: Indices of the samples to drop from the page cache after this batch, int64 [n].
    """

    keys: Keys
    places: NDArray[np.int64]
    epoch_key: EpochKey
    mark: Callable[[], None]
    upcoming: NDArray[np.int64]
    finished: NDArray[np.int64]


class SampledOrders:
    """The epochs of a `RecordSampler`: the state is a few numbers, and a resume skips without iterating.

    Attributes:
        batch_size, drop_last: Those of the next epoch.
    """

    draws_ahead = True

    def __init__(self, sampler: RecordSampler, batch_size: int, drop_last: bool, *, drop_cache: bool = False) -> None:
        self._sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last
        self._drop_cache = drop_cache
        self.set_epoch = sampler.set_epoch
        self.state_dict = sampler.state_dict
        self.load_state_dict = sampler.load_state_dict

    def __len__(self) -> int:
        return num_batches(len(self._sampler), self.batch_size, self.drop_last)

    def begin(self) -> tuple[EpochKey, Iterator[Wanted]]:
        """Begin the sampler's next epoch; return its key and its batches."""
        epoch = self._sampler.begin()
        key = epoch.seed.key(epoch.number)
        return key, self._batches(epoch, key)

    def _batches(self, epoch: Epoch, key: EpochKey) -> Iterator[Wanted]:
        size = self.batch_size
        step = size * max(1, CHUNK // size)  # compute the order of many samples at once
        for start in range(epoch.first, epoch.end, step):
            end = min(start + step, epoch.end)
            indices, places = epoch.indices(start, end), epoch.places(start, end)
            blocks = epoch.opened(start, end) if self._sampler.shuffle == "block" else None
            read = epoch.closed(start, end) if self._drop_cache and blocks is not None else NONE
            for first in range(0, end - start, size):
                part = slice(first, first + size)
                last = start + first + len(indices[part])
                if len(indices[part]) == size or not self.drop_last:
                    upcoming = indices[part] if blocks is None else NONE if first else blocks
                    finished = read if last == end else NONE
                    yield Wanted(indices[part], places[part], key, self._mark(epoch, last), upcoming, finished)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._sampler.is_within_epoch:  # a copy or pickle continues the epoch
            self.load_state_dict(self.state_dict())

    def _mark(self, epoch: Epoch, end: int) -> Callable[[], None]:
        if self.drop_last and epoch.end - end < self.batch_size:
            end = epoch.end  # skipped samples count as taken: the epoch is over
        return lambda: self._sampler.mark(epoch, end)


class Drawing:
    """Draws batches from an order, some ahead of those in progress, so that their samples can be prefetched.

    Args:
        ahead: Number of batches to draw ahead.
        tell: Called with "hint" and the samples of each batch when it is drawn; see `parts.tell`.

    Attributes:
        failure: The order's exception, raised for the user after the last batch.
    """

    def __init__(self, batches: Iterator[Wanted], ahead: int, tell: Callable[[Hint, Indices], object]) -> None:
        self._batches, self._ahead, self._tell = batches, ahead, tell
        self._drawn: collections.deque[Wanted] = collections.deque()
        self.failure: Exception | None = None

    def next(self) -> Wanted | None:
        """Return the next batch, or None at the end."""
        while len(self._drawn) <= self._ahead and (wanted := self._draw()) is not None:
            self._tell("hint", wanted.upcoming)
            self._drawn.append(wanted)
        return self._drawn.popleft() if self._drawn else None

    def forget(self, wanted: Wanted) -> None:
        """Tell of the samples that are not needed after a batch."""
        if len(wanted.finished):
            self._tell("forget", wanted.finished)

    def stop(self) -> None:
        """Draw no more batches."""
        self._drawn.clear()
        self._batches, self.failure = iter(()), None

    def _draw(self) -> Wanted | None:
        try:
            return next(self._batches, None)
        except Exception as err:  # noqa: BLE001 - whatever a sampler raises
            self._batches, self.failure = iter(()), err
            return None


def num_batches(num_samples: int, batch_size: int, drop_last: bool) -> int:
    """Return the number of batches for a number of samples."""
    return num_samples // batch_size if drop_last else -(-num_samples // batch_size)


def read_keys(keys: Iterable[Any]) -> Keys:
    """Return keys as int64 [n] if all are integers, otherwise as a list; floats and texts are not converted."""
    given: Any = keys
    if not isinstance(keys, np.ndarray | list):
        given = keys.tolist() if hasattr(keys, "tolist") else list(keys)  # of a tensor: numbers, not 0-d tensors
    try:
        found = np.asarray(given)
    except ValueError:  # sequences of several lengths
        return list(given)
    if not found.size and found.ndim == 1:
        return np.empty(0, np.int64)
    if found.ndim == 1 and found.dtype.kind == "i":
        return found.astype(np.int64, copy=False)
    numbers = [number_of(key) for key in given]
    return list(given) if None in numbers else np.array(numbers, np.int64)


def indices_of(keys: Iterable[Any], kind: str) -> Indices:
    """Return keys that must be integers."""
    found = read_keys(keys)
    if isinstance(found, list):
        wrong = next(key for key in found if number_of(key) is None)
        raise TypeError(f"{wrong!r} is no index of {kind}: its samples have the numbers 0, 1, 2, ...")
    return found


def number_of(key: Any) -> int | None:
    """Return a key as a 64-bit integer, or None if it is not one."""
    try:
        number = operator.index(key)
    except TypeError:
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


_SKIPPED_AT_ONCE = 4096


@dataclass(frozen=True)
class _SamplerPlace:
    """The user's position in an epoch.

    Attributes:
        epoch: Its number.
        samples: How many samples this rank has taken.
        checksum: CRC-32 of their keys.
        num_replicas, rank: Number of ranks, and this rank.
        generator: State of the sampler's torch generator at the beginning of the epoch, in base64; or of torch's global
            one, if the sampler draws from that.
        numpy, python: Likewise the states of NumPy's and Python's global generators, as JSON.
    """

    epoch: int
    samples: int = 0
    checksum: int = 0
    num_replicas: int = 1
    rank: int = 0
    generator: str | None = None
    numpy: dict[str, JSON] | None = None
    python: list[JSON] | None = None


class IteratedOrders:
    """The epochs of any sampler or batch sampler, with the methods of `SampledOrders`.

    Args:
        sampler: Gives keys, or lists of keys.
        seed: For the random numbers of transforms. It is drawn before the sampler draws, as in `DataLoader`.
        batch_size: Samples in a batch; None if the sampler gives lists.
        may_draw_ahead: Whether keys of a sampler of the user's may be drawn before their batch is taken: the sampler
            may see what the loop did with the batches before.

    Attributes:
        draws_ahead: Whether keys are drawn before their batch is taken.
        batch_size, drop_last: As given; for the next epoch.
    """

    def __init__(
        self, sampler: Any, seed: Seed, batch_size: int | None, *, drop_last: bool = False, may_draw_ahead: bool = True
    ) -> None:
        self._sampler, self._seed = sampler, seed
        self.batch_size, self.drop_last = batch_size, drop_last
        inner = getattr(sampler, "sampler", None) if batch_size is None else None
        self._parts = [sampler] if inner is None else [sampler, inner]
        self.draws_ahead = may_draw_ahead or not any(map(_is_own, self._parts))
        self._ranks = Ranks()
        self._told = self._epoch_of_sampler()
        self._place = _SamplerPlace(self._told or 0)
        self._epoch_seed: EpochSeed | None = None  # of the current epoch, or of the loaded one
        self._begun: object | None = None  # identifies the current epoch
        self._is_over = False

    def __len__(self) -> int:
        length = len(self._sampler)  # a TypeError if it has no length, as in DataLoader
        return length if self.batch_size is None else num_batches(length, self.batch_size, self.drop_last)

    def begin(self) -> tuple[EpochKey, Iterator[Wanted]]:
        """Begin the next epoch and tell the sampler its number; return as `SampledOrders.begin`."""
        upcoming = self._place.epoch + 1 if self._begun else self._place.epoch
        found = self._epoch_of_sampler()
        if found is not None and found != self._told:  # the user called the sampler's set_epoch
            upcoming = found
        if self._begun or upcoming != self._place.epoch:
            self._set(upcoming)
        place = self._of_these_ranks()
        if place.samples and not self._has_more(place.samples):
            self._set(place.epoch + 1)
            place = self._place
        self._tell(place.epoch)
        seed = self._epoch_seed = self._epoch_seed or self._seed.begin(self._num_ranks())
        self._begun, self._is_over = object(), False
        key = seed.key(place.epoch)
        return key, self._wanted(self._begun, place, key)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, here and in the sampler; a resumed epoch keeps its position."""
        epoch = whole_number("epoch", epoch)
        self._tell(epoch)
        if self._begun or epoch != self._place.epoch:
            self._set(epoch)

    def state_dict(self) -> dict[str, JSON]:
        """Return the seed and the user's position; at the end of an epoch, the start of the next one."""
        place, seed = self._place, self._epoch_seed
        if self._is_over:
            place, seed = _SamplerPlace(place.epoch + 1), None if seed and seed.is_drawn else seed
        if not place.samples and place.generator is None:
            num_replicas, rank = self._replicas()
            own = self._own_generator()
            place = replace(
                place, num_replicas=num_replicas, rank=rank, generator=_text(own.get_state()) if own else None
            )
        return {**(seed or self._seed.known(self._num_ranks())).state(), **asdict(place)}

    def load_state_dict(self, state: dict[str, JSON]) -> None:
        """Resume from a `state_dict`."""
        kind = "a RecordLoader with a sampler or batch_sampler of your own"
        names = ("epoch", "samples", "checksum", "num_replicas", "rank")
        state = checked_state(state, kind, names, {})
        if not state["rank"] < state["num_replicas"]:
            raise ArgumentError(
                f"state: rank={state['rank']} is not one of 0 to num_replicas - 1, {state['num_replicas'] - 1}."
            )
        states: dict[str, Any] = {name: state.get(name) for name in _GLOBAL}
        _check_states(states, self._own_generator())
        self._epoch_seed = self._seed.load(state)
        self._place = _SamplerPlace(**{name: state[name] for name in names}, **states)
        self._begun, self._is_over = None, False
        self._tell(self._place.epoch)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._begun and not self._is_over:  # a copy or pickle continues the epoch
            self._begun = None

    def _set(self, epoch: int) -> None:
        self._place, self._epoch_seed, self._begun, self._is_over = _SamplerPlace(epoch), None, None, False

    def _tell(self, epoch: int) -> None:
        for part in self._parts:
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)
        self._told = self._epoch_of_sampler()

    def _epoch_of_sampler(self) -> int | None:
        """Return the sampler's own epoch number; None if it has none."""
        epochs = [getattr(part, "epoch", None) for part in self._parts if hasattr(part, "set_epoch")]
        return next((epoch for epoch in epochs if isinstance(epoch, int)), None)

    def _own_generator(self) -> torch.Generator | None:
        found = [getattr(part, "generator", None) for part in self._parts]
        return next((each for each in found if isinstance(each, torch.Generator)), None)

    def _num_ranks(self) -> int:
        """Return the number of ranks that must agree on a seed, including ranks unknown to the sampler."""
        return max(self._ranks.now()[0], self._replicas()[0])

    def _replicas(self) -> tuple[int, int]:
        """Return number of ranks and rank: the sampler's, if it has them."""
        for part in self._parts:
            if hasattr(part, "num_replicas"):
                return part.num_replicas, getattr(part, "rank", 0)
        return self._ranks.now()

    def _of_these_ranks(self) -> _SamplerPlace:
        """Return this rank's starting position; it differs if the state has another number of ranks."""
        place, (num_replicas, rank) = self._place, self._replicas()
        if not place.samples or place.num_replicas == num_replicas:
            checksum = place.checksum if place.rank == rank else -1  # that of another rank's keys is not compared
            return replace(place, num_replicas=num_replicas, rank=rank, checksum=checksum)
        taken = place.samples * place.num_replicas
        if type(self._parts[-1]) is not DistributedSampler or taken % num_replicas:
            raise ArgumentError(
                f"The state is from {place.num_replicas} ranks, each of which took {place.samples} samples; here are "
                f"{num_replicas}, and {type(self._parts[-1]).__name__} cannot continue with what is left. Resume on "
                f"{place.num_replicas} ranks, or use RecordSampler, which continues on any number."
            )
        return replace(place, samples=taken // num_replicas, num_replicas=num_replicas, rank=rank, checksum=-1)

    def _has_more(self, taken: int) -> bool:
        if self.batch_size is None or not isinstance(self._sampler, Sized):
            return True
        left = len(self._sampler) - taken  # negative for another sampler, which is refused later
        return left < 0 or num_batches(left, self.batch_size, self.drop_last) > 0

    def _wanted(self, begun: object, place: _SamplerPlace, key: EpochKey) -> Iterator[Wanted]:
        own = self._own_generator()
        if own and place.generator is not None:
            own.set_state(_state(place.generator))
        of_own: dict[str, Any] = {"generator": _text(own.get_state())} if own else {}
        names = [name for name in _GLOBAL if name not in of_own]
        start, is_resumed = _as_json(_states(names)), place.samples > 0
        apart = _Apart({name: getattr(place, name) for name in names} if is_resumed else {})
        with apart:
            batches, checksum = self._resumed(place)
        count, drawn = place.samples, apart.each(batches)
        told = _with_last(drawn) if self.draws_ahead else ((batch, False) for batch in drawn)
        for number, (chosen, is_last) in enumerate(told):
            if number == 0 and not is_resumed:
                now = _as_json(_states(names))
                place = replace(place, **of_own, **{name: was for name, was in start.items() if was != now[name]})
            given = list(chosen)
            numbers = read_keys(given)
            keys = numbers if all(type(key) is int for key in given) else given
            places = place.rank + place.num_replicas * np.arange(count, count + len(keys), dtype=np.int64)
            count, checksum = count + len(keys), _checksum(numbers, checksum)
            upcoming = NONE if isinstance(numbers, list) else numbers
            reached = replace(place, samples=count, checksum=checksum)
            is_last = is_last or not (self.draws_ahead or self._has_more(count))
            yield Wanted(keys, places, key, self._mark(begun, reached, is_last=is_last), upcoming, NONE)
        if begun is self._begun and not self.draws_ahead:
            self._is_over = True

    def _resumed(self, place: _SamplerPlace) -> tuple[Iterator[list[Any]], int]:
        """Return the batches from a place on, and the checksum of the keys before it, which must be the same again."""
        given, checksum, left = iter(self._sampler), 0, place.samples
        while left > 0:
            size = min(left, _SKIPPED_AT_ONCE)
            skipped = next(given, []) if self.batch_size is None else list(islice(given, size))
            if not len(skipped):
                break
            left -= len(skipped)
            checksum = _checksum(read_keys(skipped), checksum)
        if left or place.checksum not in (-1, checksum):
            name = type(self._sampler).__name__
            raise ArgumentError(
                f"{name} does not give the {place.samples} samples again that it gave before the state was saved, so "
                "this epoch cannot be resumed. Give it the dataset and arguments that it had, and random numbers from "
                "a torch.Generator, a global generator or the epoch (set_epoch); or use RecordSampler."
            )
        return (given if self.batch_size is None else self._grouped(given, self.batch_size)), checksum

    def _grouped(self, given: Iterator[Any], size: int) -> Iterator[list[Any]]:
        while batch := list(islice(given, size)):
            if len(batch) == size or not self.drop_last:
                yield batch

    def _mark(self, begun: object, reached: _SamplerPlace, *, is_last: bool) -> Callable[[], None]:
        def mark() -> None:
            if begun is self._begun:
                self._place, self._is_over = reached, is_last

        return mark


def _is_own(sampler: Any) -> bool:
    """Whether a sampler runs code of the user's: it is none of torch's or ours, and no list or array."""
    package = type(sampler).__module__.partition(".")[0]
    return isinstance(sampler, GeneratorType) or package not in ("torch", "recordzoo", "numpy", "builtins")


def _checksum(keys: Keys, checksum: int) -> int:
    if not isinstance(keys, list):
        return zlib.crc32(keys.tobytes(), checksum)
    for key in keys:
        number = number_of(key)
        text = json.dumps(key, default=lambda _: None, skipkeys=True) if number is None else ""
        checksum = zlib.crc32(text.encode() if number is None else np.int64(number).tobytes(), checksum)
    return checksum


def _check_states(states: dict[str, Any], own: torch.Generator | None) -> None:
    """Accept None, or the states of generators: of the sampler's own, and of the global ones."""
    try:
        if own is not None and states["generator"] is not None:
            torch.Generator(own.device).set_state(_state(states["generator"]))
        with _Apart(states if own is None else {**states, "generator": None}):
            pass
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as err:
        given = ", ".join(f"{name}={state!r:.50}" for name, state in states.items() if state is not None)
        raise ArgumentError(f"state: {given} is not the state of a random generator: {err!r}") from err


class _Apart:
    """The global generators as a sampler left them; within the block they stand there, and afterwards as before it.

    Args:
        states: The states, as in `_SamplerPlace`; None: the sampler does not draw from this generator.
    """

    def __init__(self, states: dict[str, Any]) -> None:
        self._states = {name: state for name, state in states.items() if state is not None}

    def __enter__(self) -> None:
        self._before = _states(self._states)
        try:
            _set_states(self._states)
        except BaseException:
            _set_states(self._before)
            raise

    def __exit__(self, *_: object) -> None:
        self._states = _states(self._states)
        _set_states(self._before)

    def each(self, batches: Iterator[list[Any]]) -> Iterator[list[Any]]:
        """Iterate over batches that are drawn in such blocks."""
        while True:
            with self:
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _set_torch(state: torch.Tensor | str) -> None:
    torch.set_rng_state(_state(state) if isinstance(state, str) else state)


def _set_python(state: Iterable[Any]) -> None:
    version, words, gauss = state
    random.setstate((version, tuple(words), gauss))


_GLOBAL: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "generator": (torch.get_rng_state, _set_torch),
    "numpy": (functools.partial(np.random.get_state, legacy=False), np.random.set_state),
    "python": (random.getstate, _set_python),
}
"""How to get and set the states of the global generators; also to set what `_as_json` returns."""


def _states(names: Iterable[str]) -> dict[str, Any]:
    return {name: _GLOBAL[name][0]() for name in names}


def _set_states(states: dict[str, Any]) -> None:
    for name, state in states.items():
        _GLOBAL[name][1](state)


def _as_json(states: dict[str, Any]) -> dict[str, Any]:
    def converted(value: Any) -> Any:
        return _text(value) if isinstance(value, torch.Tensor) else value.tolist()

    found: dict[str, Any] = json.loads(json.dumps(states, default=converted))
    return found


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _state(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)


def _with_last(batches: Iterable[list[Any]]) -> Iterator[tuple[list[Any], bool]]:
    """Yield each batch with a flag for the last one: not every sampler has a length, or the right one."""
    upcoming = iter(batches)
    batch = next(upcoming, None)
    while batch is not None:
        try:
            following = next(upcoming, None)
        except BaseException:
            yield batch, False  # the sampler fails after this batch, not before it
            raise
        yield batch, following is None
        batch = following
