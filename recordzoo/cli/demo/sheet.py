"""The demo's contact sheet: samples as the dataset gives them, with their boxes."""

from pathlib import Path

from PIL import Image, ImageDraw

from recordzoo.datasets.cub200.dataset import CUB200Record
from recordzoo.preview.sheet import BOX, Cell, draw_sheet

COLUMNS, ROWS = 8, 5


def write_sheet(dataset: CUB200Record, path: Path) -> int:
    """Draw samples of `dataset` (target_type "category" and "bbox") from all of it; returns how many."""
    count = min(COLUMNS * ROWS, len(dataset))
    cells = [_cell(dataset, number * len(dataset) // count) for number in range(count)]
    subtitle = f"{count} of {len(dataset):,} test samples, with their boxes"
    draw_sheet(cells, "Generated birds", subtitle, columns=COLUMNS).save(path)
    return count


def _cell(dataset: CUB200Record, index: int) -> Cell:
    image, (label, box) = dataset[index]
    scale = min(BOX) / max(image.size)
    x, y, width, height = (float(value) * scale for value in box)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.LANCZOS)
    ImageDraw.Draw(image).rectangle((x, y, x + width, y + height), outline="white", width=2)
    return Cell(image, dataset.classes[label])
