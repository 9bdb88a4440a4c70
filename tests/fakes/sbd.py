"""The Semantic Boundaries Dataset by code: .mat files as MATLAB structures, boundaries as sparse matrices."""

import functools
import io
import shutil
from pathlib import Path

import numpy as np
from scipy.io import savemat
from scipy.sparse import csc_matrix
from torchvision.datasets.utils import extract_archive

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import change, change_item
from tests.fakes.pictures import jpeg, picture
from tests.fakes.scale import enlarged, scaled

NUM_CLASSES = 20
MODES = ("boundaries", "segmentation")

MASKS = {
    "images reversed": change("images", lambda images: images[::-1]),
    "one image replaced": change_item("images", 0, lambda images: images[1]),
    "masks reversed": change("masks", lambda masks: masks[::-1]),
    "one mask replaced": change_item("masks", 0, lambda masks: masks[1]),
}


@functools.cache
def _mat(rng: np.random.Generator, width: int, height: int, folder: str) -> bytes:
    """Make a file; a folder has one for each size."""
    boundaries = np.empty((NUM_CLASSES, 1), object)
    for label in range(NUM_CLASSES):
        boundaries[label, 0] = csc_matrix(enlarged(rng.random((height, width)) > 0.97 + 0.001 * label), dtype=np.uint8)
    segmentation = enlarged(rng.integers(0, NUM_CLASSES + 1, (height, width), dtype=np.uint8))
    categories = np.unique(segmentation).reshape(-1, 1)
    buffer = io.BytesIO()
    content = {"Boundaries": boundaries, "Segmentation": segmentation, "CategoriesPresent": categories}
    savemat(buffer, {"GTcls": content}, do_compression=True)
    return b"MATLAB 5.0 MAT-file".ljust(116) + buffer.getvalue()[116:]  # without the date


def _build() -> Fake:
    rng = np.random.default_rng(0)
    base = "benchmark_RELEASE/dataset"
    demo = "benchmark_RELEASE/benchmark_code_RELEASE/demo/datadir"
    files = {f"{demo}/cls/2008_000051.mat": b"not read", f"{demo}/img/2008_000051.jpg": b"not read"}
    stems = [f"2008_{number:06d}" for number in rng.permutation(scaled(900))[: scaled(7)].tolist()]
    for number, stem in enumerate(stems):
        width, height = 30 + number % 20, 24 + number % 3
        image = picture(rng, width, height)
        files[f"{base}/img/{stem}.jpg"] = jpeg(image.convert("L") if number == 1 else image)
        files[f"{base}/cls/{stem}.mat"] = _mat(rng, width, height, "cls")
        files[f"{base}/inst/{stem}.mat"] = _mat(rng, width, height, "inst")
    lists = {"train": stems[: scaled(4)], "val": stems[scaled(4) : scaled(6)]}  # some images are in neither
    for name, listed in lists.items():
        files[f"{base}/{name}.txt"] = "".join(f"{stem}\n" for stem in listed).encode()
    noval = "".join(f"{stem}\n" for stem in [stems[5], *stems[:2]]).encode()
    arguments = (
        {"mode": "segmentation"},
        {},
        *(
            {"image_set": each, "mode": mode}
            for each in ("val", "train_noval")
            for mode in ("boundaries", "segmentation")
        ),
    )
    bad = ({"image_set": "test"}, {"mode": "instances"}, {"mode": None})
    case = Case("SBDatasetRecord", arguments, bad, MASKS)
    return Fake("sbd", {"benchmark.tgz": tar(files), "train_noval.txt": noval}, [case], unpack=_unpack)


def _unpack(folder: Path) -> None:
    extract_archive(str(folder / "benchmark.tgz"), str(folder))
    for path in (folder / "benchmark_RELEASE" / "dataset").iterdir():
        shutil.move(path, folder)
    shutil.rmtree(folder / "benchmark_RELEASE")


FAKES = (_build(),)
