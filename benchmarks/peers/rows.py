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
    """

    title: str
    work: Work
    ours: Contestant
    against: tuple[tuple[Contestant, float | None], ...]
    wanted_per_s: float | None = None

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


def _ours(label: str, tree: str = "photos", layout: str = "NCHW", **write: Any) -> Contestant:
    loader = {"precision": "fast", "layout": layout}
    return Contestant(f"RecordLoader, fast{label}", "record_loader", tree, write, loader)


def _stored(label: str, store: str, tree: str = "photos") -> Contestant:
    return Contestant(label, "stored", tree, {"store": store}, {"store": store})


ROWS = {
    "exact": Row("originals, uint8, exact precision", UINT8, EXACT, ((FILES, 1.5),)),
    "stock": Row("originals, uint8, torch's DataLoader", UINT8, STOCK, ((FILES, 0.97),)),
    "fast": Row("originals, uint8, fast precision", UINT8, FAST_NHWC, ((FILES, 2.3), (FFCV, 1.7), (DALI, 1.4))),
    "full": Row(
        "all re-encoded at their full size, JPEG 90, as FFCV does, uint8",
        UINT8,
        _ours(", channels last, full", layout="NHWC", variant="full"),
        ((FFCV, None), (FILES, None)),
    ),
    "float": Row(
        "originals, float32 normalised, fast precision", FLOAT32, FAST, ((FILES, 1.9), (FFCV, 1.4), (DALI, 1.05))
    ),
    "256": Row(
        "256 pixels on the shorter side, JPEG 90, uint8",
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
        "256 pixels on the shorter side, raw pixels, uint8",
        UINT8,
        _ours(", channels last, 256-raw", layout="NHWC", variant="256-raw"),
        ((Contestant("FFCV raw, the same pixels", "ffcv", "short256", {"write_mode": "raw"}), 1.1),),
    ),
    "tiny": Row(
        "JPEGs of 16 x 16 pixels, uint8: the loader itself",
        TINY,
        _ours(", tiny", "tiny"),
        ((Contestant("ImageFolder + DataLoader, tiny", "imagefolder", "tiny"), None),),
        wanted_per_s=25_000,
    ),
    "birds": Row(
        "a set like CUB-200-2011, uint8",
        UINT8,
        _ours(", full-raw", "birds", variant="full-raw"),  # pixels are what TorchRecord stores
        (
            (_ours(", originals", "birds"), None),
            (Contestant("ImageFolder + DataLoader", "imagefolder", "birds"), 2.5),
            (_stored("raw pixels in LMDB", "raw_lmdb", "birds"), None),
        ),
    ),
    "formats": Row(
        "originals, uint8, other formats",
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
    "recipes": Row(
        "originals, uint8, what people build themselves",
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
