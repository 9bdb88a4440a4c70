"""The options that everything that makes records of a person's own data shares."""

from typing import Literal, TypedDict

from recordzoo.progress import Progress


class OwnOptions(TypedDict, total=False):
    """How a record set of one's own data is made; all optional, all keyword-only.

    Attributes:
        workers: Processes that convert; default: the cores that this process may use, 8 at most.
        shard_bytes: About how large a shard becomes; default an eighth of the data, 64 MiB to 1 GiB.
        num_shards: Exactly how many shards there are, instead.
        on_error: What to do with an encoded image whose header no decoder recognises: "keep" it as it is (default;
            reading it raises), "skip" it, or "raise".
        refresh: Make the record set again although it is there, and exchange the two.
        progress: Told how the work goes on; default: bars on a terminal, elsewhere `logging`, logger "recordzoo".
    """

    workers: int | None
    shard_bytes: int | None
    num_shards: int | None
    on_error: Literal["keep", "skip", "raise"]
    refresh: bool
    progress: Progress | None
