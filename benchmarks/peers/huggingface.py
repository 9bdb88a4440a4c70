"""Hugging Face datasets: an image column in Arrow files, read through torch's DataLoader."""

from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, Features, Image, load_from_disk
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from benchmarks.peers.work import Work, stock_loader


def write(tree: Path, folder: Path) -> None:
    photos = ImageFolder(tree)
    rows = {
        "image": [{"bytes": Path(path).read_bytes(), "path": None} for path, _ in photos.samples],
        "label": photos.targets,
    }
    features = Features({"image": Image(), "label": ClassLabel(names=photos.classes)})
    Dataset.from_dict(rows, features).save_to_disk(folder / "arrow")


class _Transformed:
    """What `with_transform` calls with each batch of rows; a class, so that workers can be given it."""

    def __init__(self, work: Work) -> None:
        self.transform = work.transform()

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        return {"image": [self.transform(image.convert("RGB")) for image in rows["image"]], "label": rows["label"]}


def loader(tree: Path, folder: Path, work: Work) -> DataLoader:
    return stock_loader(load_from_disk(folder / "arrow").with_transform(_Transformed(work)), work)
