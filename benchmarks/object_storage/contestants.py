"""The lines of the benchmark: each one's module, its options, and where it reads from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contestant:
    """One line of the page.

    Attributes:
        label: What the page calls it.
        module: The module of this package.
        options: Of the module's `loader`.
        is_local: Whether it reads the local folder, not the server.
        is_ours: Whether it is compared to the others.
    """

    label: str
    module: str
    options: Mapping[str, Any] = field(default_factory=dict)
    is_local: bool = False
    is_ours: bool = False


CONTESTANTS = {
    "local": Contestant("local records, RecordLoader", "records", is_local=True),
    "records": Contestant("records, RecordLoader", "records", is_ours=True),
    "stock": Contestant("records, torch's DataLoader", "records", {"is_stock": True}),
    "streaming": Contestant("MosaicML Streaming", "streaming"),
    "litdata": Contestant("LitData", "litdata"),
    "webdataset": Contestant("WebDataset, cached", "webdataset"),
    "webdataset-streamed": Contestant("WebDataset, not cached", "webdataset", {"is_cached": False}),
}
