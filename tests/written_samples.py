"""What the scripts that write `tests/written/` have in common; recordzoo is not needed."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WRITTEN = Path(__file__).parent / "written"
CLASSES = ["ant", "bee", "cat", "dog", "eel"]


def samples(count: int) -> list[tuple[bytes, int]]:
    """Make small encoded pictures, most JPEG, some PNG, with labels."""
    rng = np.random.default_rng(count)
    made = []
    for number in range(count):
        buffer = io.BytesIO()
        image = Image.fromarray(rng.integers(0, 255, (6 + number % 3, 8, 3), np.uint8))
        image.save(buffer, "PNG" if number % 4 == 3 else "JPEG")
        made.append((buffer.getvalue(), int(rng.integers(len(CLASSES)))))
    return made


def expect(name: str, pairs: list[tuple[bytes, int]], **more: Any) -> None:
    """Write what an import of the files must have."""
    document = {
        "images": [hashlib.blake2b(image, digest_size=8).hexdigest() for image, _ in pairs],
        "targets": [label for _, label in pairs],
        **more,
    }
    (WRITTEN / name / "expected.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
