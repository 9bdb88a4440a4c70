"""Make a sheet of at most 20 real samples of a dataset, for its page. The raw files have to be in DIR.

    python -m tools.samples fashion_mnist --root DIR

It writes docs/samples/NAME.webp, and prints the beginning of its section of docs/samples/samples.toml. Add the author,
the license with its notice, the source, and where the raw files are from. Use it only for images that may be passed on.
"""

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from docs.parts.real_samples import FOLDER, MOST
from recordzoo.preparing.preparation import ensure
from recordzoo.preview import choose, make_thumbnail
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.records.reader import RecordReader

CELL, GAP, COLUMNS = 56, 4, 10
"""Pixels of an image's longer side and between images; images in a row."""


def draw(reader: RecordReader, split: str) -> tuple[Image.Image, list[int]]:
    """Draw samples of a split, as many of each class as possible; also return their places in the split."""
    choice = choose(reader, MOST, split=split)
    found, chosen = reader.split(split), choice.positions
    step, rows = CELL + GAP, -(-len(chosen) // COLUMNS)
    sheet = Image.new("RGBA", (COLUMNS * step - GAP, rows * step - GAP))
    for number, position in enumerate(chosen):
        image = make_thumbnail(reader, choice.field, position, (CELL, CELL)).image
        if image is None:
            raise SystemExit(f"{reader.path}: the image of record {position} is broken.")
        sheet.paste(image, (number % COLUMNS * step, number // COLUMNS * step))
    places = {int(position): place for place, position in enumerate(found)}
    return sheet, [places[position] for position in chosen]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a sheet."""
    parser = argparse.ArgumentParser(prog="python -m tools.samples", description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="the dataset, as in `recordzoo list`")
    parser.add_argument("--root", type=Path, required=True, help="the folder of the raw files")
    parser.add_argument("--split", default="train", help="default: train")
    parser.add_argument("--output", type=Path, default=FOLDER, help="default: docs/samples")
    asked = parser.parse_args(arguments)
    path = ensure(dataset_recipe(asked.name), asked.root, prepare=True)
    sheet, indices = draw(RecordReader(path), asked.split)
    target = asked.output / f"{asked.name}.webp"
    sheet.save(target, "WEBP", lossless=True, quality=100, method=6)
    print(f"# {target}: {target.stat().st_size:,} bytes\n[{asked.name}]\ndate = {datetime.date.today()}")
    print(f'split = "{asked.split}"\nindices = {indices}\nsize = {list(sheet.size)}')


if __name__ == "__main__":
    main()
