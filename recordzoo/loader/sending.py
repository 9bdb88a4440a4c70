"""Send a batch from a worker process: large tensors in shared memory, small ones as bytes.

torch shares the memory of every tensor with a file descriptor, for which the other process opens a connection: 1 to
2 ms each, and a batch of images with boxes and labels has hundreds of small tensors.
"""

import io
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch.storage import TypedStorage
from typing_extensions import override

_SMALL_BYTES = 64 << 10
_PROTOCOL = pickle.HIGHEST_PROTOCOL

# Any, here and below: a batch is what the collate function makes.


class Sent:
    """Wraps a batch for multiprocessing; unpickling returns the batch itself.

    Raises:
        Exception: The batch cannot be pickled; the error of pickle or of a class in the batch. Multiprocessing would
            pickle in a thread and only print the error, and the other process would never stop waiting.
    """

    def __init__(self, batch: Any) -> None:
        pickler = _Pickler()
        pickler.dump(batch)
        self._parts = pickler.file.getvalue(), pickler.storages

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, self._parts


def _received(data: bytes, storages: "list[torch.UntypedStorage | bytes]") -> Any:
    return _Unpickler(data, storages).load()


class _Pickler(ForkingPickler):
    """Pickles a batch without the tensors' memory, which is collected in `storages`, each once."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        super().__init__(self.file, _PROTOCOL)
        self.storages: list[torch.UntypedStorage | bytes] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[torch.UntypedStorage] = []  # keeps the addresses unique

    def reducer_override(self, value: Any) -> Any:
        """Take tensors apart as `torch.save` does, not as multiprocessing does; except sparse ones.

        torch keeps a sparse tensor that `torch.save` took apart until the next `torch.load`, which validates it.
        """
        if not isinstance(value, torch.Tensor):
            return NotImplemented
        if value.layout is torch.sparse_coo:
            return _sparse, (value._indices(), value._values(), value.shape, value.is_coalesced())
        if value.layout is not torch.strided:
            return NotImplemented
        return value.__reduce_ex__(_PROTOCOL)  # type: ignore[no-untyped-call]

    @override
    def persistent_id(self, value: Any) -> tuple[int, torch.dtype] | None:
        if not isinstance(value, TypedStorage):
            return None
        storage = value._untyped_storage
        number = self._numbers.setdefault(storage._cdata, len(self.storages))
        if number == len(self.storages):
            self._kept.append(storage)
            is_small = storage.nbytes() <= _SMALL_BYTES and storage.device.type == "cpu"
            self.storages.append(_view(storage).numpy().tobytes() if is_small else storage)
        return number, value.dtype


def _sparse(indices: torch.Tensor, values: torch.Tensor, shape: torch.Size, is_coalesced: bool) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False, is_coalesced=is_coalesced)


class _Unpickler(pickle.Unpickler):
    """Rebuilds a batch pickled by `_Pickler`."""

    def __init__(self, data: bytes, storages: "list[torch.UntypedStorage | bytes]") -> None:
        super().__init__(io.BytesIO(data))
        self._storages = [_storage(each) if isinstance(each, bytes) else each for each in storages]

    @override
    def persistent_load(self, name: tuple[int, torch.dtype]) -> TypedStorage:
        number, dtype = name
        return TypedStorage(wrap_storage=self._storages[number], dtype=dtype, _internal=True)  # type: ignore[no-untyped-call]


def _view(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a storage's bytes, uint8 [n]."""
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)


def _storage(data: bytes) -> torch.UntypedStorage:
    storage = torch.UntypedStorage(len(data))  # type: ignore[no-untyped-call]
    _view(storage).numpy()[:] = np.frombuffer(data, np.uint8)
    return storage
