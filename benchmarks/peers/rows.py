"""The rows: which work, whose loader is ours in it, and against whom, with the ratio that is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.work import Work


@dataclass(frozen=True)
class Contestant:
    """One loader in a row.

    Attributes:
        label: What the page calls it.
        peer: The module of this package.
        tree: What it is given; see `benchmarks.peers.trees`.
        write: Options of the module's `write`.
        loader: Options of the module's `loader`.
    """

    label: str
    peer: str
    tree: str = "photos"
    write: Mapping[str, Any] = field(default_factory=dict)
    loader: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        title: What is done.
        ours: The first of the contestants; its speed is divided by those of the others.
        against: The others, each with the ratio asked for, if one is.
        wanted_per_s: Images a second asked for, where no ratio is.
        note: What the page says below the table.
        python: The oldest Python with which it is measured.
    """

    title: str
    work: Work
    ours: Contestant
    against: tuple[tuple[Contestant, float | None], ...]
    wanted_per_s: float | None = None
    note: str = ""
    python: tuple[int, int] = (3, 11)

    @property
    def contestants(self) -> list[Contestant]:
        return [self.ours, *(other for other, _ in self.against)]


UINT8 = Work("uint8")
FLOAT32 = Work("float32")
TINY = Work("uint8", size=None)

FILES = Contestant("ImageFolder + DataLoader", "imagefolder")
STOCK = Contestant("records + DataLoader", "records")
EXACT = Contestant("RecordLoader, exact", "record_loader")
FAST = Contestant("RecordLoader, fast", "record_loader", loader={"precision": "fast"})
FAST_NHWC = Contestant(
    "RecordLoader, fast, channels last", "record_loader", loader={"precision": "fast", "layout": "NHWC"}
)
"""Against those that have no other layout."""
FFCV = Contestant("FFCV", "ffcv")
DALI = Contestant("DALI, CPU", "dali")
TURBO = Contestant("TurboLoader", "turboloader")


def _ours(label: str, tree: str = "photos", layout: str = "NCHW", **write: Any) -> Contestant:
    loader = {"precision": "fast", "layout": layout}
    return Contestant(f"RecordLoader, fast{label}", "record_loader", tree, write, loader)


def _stored(label: str, store: str, tree: str = "photos") -> Contestant:
    return Contestant(label, "stored", tree, {"store": store}, {"store": store})


ROWS = {
    "fast": Row("originals, fast precision", UINT8, FAST_NHWC, ((FILES, 2.3), (FFCV, 1.7), (DALI, 1.4))),
    "exact": Row("originals, exact precision", UINT8, EXACT, ((FILES, 1.5),)),
    "stock": Row("originals, torch's DataLoader", UINT8, STOCK, ((FILES, 0.97),)),
    "full": Row(
        "re-encoded at full size, JPEG 90, as FFCV does",
        UINT8,
        _ours(", channels last, full", layout="NHWC", variant="full"),
        ((FFCV, None), (FILES, None)),
    ),
    "float": Row(
        "originals, normalised float32", FLOAT32, FAST, ((FILES, 1.9), (FFCV, 1.4), (DALI, 1.05), (TURBO, None))
    ),
    "256": Row(
        "short side of 256, JPEG 90",
        UINT8,
        _ours(", channels last, 256", layout="NHWC", variant="256"),
        (
            (Contestant("FFCV, the same pixels", "ffcv", "short256"), 2.0),
            (_ours(", channels last, max256", layout="NHWC", variant="max256"), None),
            (Contestant("FFCV, 256 on the longer side", "ffcv", write={"max_resolution": 256}), None),
            (FILES, 9),
        ),
    ),
    "raw256": Row(
        "short side of 256, raw pixels",
        UINT8,
        _ours(", channels last, 256-raw", layout="NHWC", variant="256-raw"),
        ((Contestant("FFCV raw, the same pixels", "ffcv", "short256", {"write_mode": "raw"}), 1.1),),
    ),
    "tiny": Row(
        "JPEGs of 16 x 16 pixels",
        TINY,
        _ours(", tiny", "tiny"),
        ((Contestant("ImageFolder + DataLoader, tiny", "imagefolder", "tiny"), None),),
        wanted_per_s=25_000,
    ),
    "birds": Row(
        "a set like CUB-200-2011, raw pixels",
        UINT8,
        _ours(", full-raw", "birds", variant="full-raw"),  # pixels are what TorchRecord stores
        (
            (_ours(", originals", "birds"), None),
            (Contestant("ImageFolder + DataLoader", "imagefolder", "birds"), 2.5),
            (_stored("raw pixels in LMDB", "raw_lmdb", "birds"), None),
        ),
    ),
    "formats": Row(
        "other formats",
        UINT8,
        FAST,
        (
            (Contestant("WebDataset", "webdataset"), None),
            (Contestant("MosaicML Streaming", "streaming"), None),
            (Contestant("LitData", "litdata"), None),
            (Contestant("Hugging Face datasets", "huggingface"), None),
            (Contestant("TFRecord", "tfrecord"), None),
            (FILES, None),
        ),
    ),
    "loaders": Row(
        "other loaders",
        UINT8,
        FAST,
        (
            (Contestant("SPDL", "spdl"), None),
            (Contestant("Grain, processes", "grain"), None),
            (Contestant("Grain, threads", "grain", loader={"by": "threads"}), None),
            (Contestant("Lance", "lance"), None),
            (Contestant("datago, crop by torchvision", "datago"), None),
            (Contestant("datago, its own crop: centred, no flip", "datago", loader={"crop": "own"}), None),
            (FILES, None),
        ),
        note="datago has no random crop; its own is other work.",
    ),
    "python313": Row(
        "Python 3.13",
        UINT8,
        FAST,
        ((Contestant("dataloader-rs", "dataloader_rs"), None), (FILES, None)),
        note="dataloader-rs ran with Python's GIL.",
        python=(3, 13),
    ),
    "recipes": Row(
        "what people build",
        UINT8,
        FAST,
        (
            (_stored("JPEG pickled in LMDB", "pickled_lmdb"), None),
            (_stored("raw pixels in LMDB", "raw_lmdb"), None),
            (_stored("SQLite", "sqlite"), None),
            (_stored("one file with an index", "one_file"), None),
            (STOCK, None),
            (FILES, None),
        ),
    ),
}

COLD = Contestant("RecordLoader, fast", "record_loader", "gigabyte", loader={"precision": "fast"})
