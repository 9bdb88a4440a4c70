"""The contact sheet: samples as the dataset gives them, with their boxes."""

from pathlib import Path

from PIL import Image, ImageDraw

from recordzoo.datasets.cub200 import CUB200Record

COLUMNS, ROWS, CELL, CAPTION = 8, 5, 150, 16


def write_sheet(dataset: CUB200Record, path: Path) -> int:
    """Draw samples of `dataset` (target_type "category" and "bbox") from all of it; returns how many."""
    sheet = Image.new("RGB", (COLUMNS * CELL, ROWS * (CELL + CAPTION)), "white")
    draw = ImageDraw.Draw(sheet)
    count = min(COLUMNS * ROWS, len(dataset))
    for cell in range(count):
        image, (label, box) = dataset[cell * len(dataset) // count]
        left, top = cell % COLUMNS * CELL, cell // COLUMNS * (CELL + CAPTION)
        scale = (CELL - 6) / max(image.size)
        x, y, width, height = (float(value) * scale for value in box)
        image = image.resize((round(image.width * scale), round(image.height * scale)))
        ImageDraw.Draw(image).rectangle((x, y, x + width, y + height), outline="white", width=2)
        sheet.paste(image, (left + 3, top + 3))
        draw.text((left + 3, top + CELL), dataset.classes[label][:24], fill="black")
    sheet.save(path)
    return count
