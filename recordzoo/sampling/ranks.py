"""Number of ranks and this rank: given, or read from `torch.distributed` at each use."""

from torch import distributed

from recordzoo.errors import ArgumentError


class Ranks:
    """Number of ranks and number of this rank.

    A number that is not given is read from `torch.distributed` at each use: Lightning, accelerate and many scripts
    build samplers and loaders before they initialise the process group.

    Args:
        num_replicas: Number of ranks.
        rank: This rank, from 0.

    Raises:
        ArgumentError: As of `now`.
    """

    def __init__(self, num_replicas: int | None = None, rank: int | None = None) -> None:
        self._num_replicas, self._rank = num_replicas, rank
        self.now()

    def now(self) -> tuple[int, int]:
        """Return number of ranks and this rank; 1 and 0 if there is no process group and neither was given.

        Raises:
            ArgumentError: Only one of them is known, or the rank is not below the number of ranks.
        """
        num_replicas, rank = self._num_replicas, self._rank
        if distributed.is_available() and distributed.is_initialized():
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if num_replicas is None and rank is None:
            return 1, 0
        if num_replicas is None or rank is None or not 0 <= rank < num_replicas:
            raise ArgumentError(
                f"rank={rank} and num_replicas={num_replicas}: rank must be one of 0 to num_replicas - 1, and both "
                "must be given where torch.distributed is not initialised."
            )
        return num_replicas, rank
