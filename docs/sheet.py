"""Draw docs/sheet.png: a contact sheet of generated birds, as `recordzoo show` writes it, in fewer colours.

PYTHONPATH=. python docs/sheet.py
"""

import tempfile
from pathlib import Path

from PIL import Image

from recordzoo.cli.record_set import show
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.declared import dataset_recipe
from tests.fakes import cub200

TARGET = Path(__file__).parent / "sheet.png"
COLOURS = 200  # half of the bytes, or less

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        cub200.build(5, 40, size=(260, 200)).write_tree(root)
        path = ensure(dataset_recipe("cub200"), root, prepare=True)
        show(str(path), split="test", number=8, output=root / TARGET.name)
        with Image.open(root / TARGET.name) as sheet:
            sheet.quantize(COLOURS, dither=Image.Dither.NONE).save(TARGET, optimize=True)
