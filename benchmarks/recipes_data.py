"""Trees of photographs for `benchmarks.recipes`: class folders, and Pascal VOC with random boxes."""

import io
import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from PIL import Image

from recordzoo import VOCDetectionRecord
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe

_OBJECT = (
    "<object><name>{name}</name><pose>Unspecified</pose><truncated>0</truncated><difficult>0</difficult>"
    "<bndbox><xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax><ymax>{3}</ymax></bndbox></object>"
)
_ANNOTATION = (
    "<annotation><folder>VOC2012</folder><filename>{stem}.jpg</filename>"
    "<size><width>{width}</width><height>{height}</height><depth>3</depth></size><segmented>0</segmented>"
    "{objects}</annotation>"
)


def enlarged(photos: Iterable[bytes], megapixels: int) -> Iterator[bytes]:
    """Yield photographs in a size that cameras make."""
    for data in photos:
        image = Image.open(io.BytesIO(data)).convert("RGB")
        scale = math.sqrt(megapixels * 1e6 / (image.width * image.height))
        file = io.BytesIO()
        size = round(image.width * scale), round(image.height * scale)
        image.resize(size, Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        yield file.getvalue()


def write_classes(photos: Iterable[bytes], root: Path) -> None:
    """Write 40 class folders, and their record set."""
    for number, data in enumerate(photos):
        path = root / f"class{number % 40:02d}" / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    ensure(FolderRecipe(), root, prepare=True)


def write_voc(photos: Iterable[bytes], root: Path) -> None:
    """Write Pascal VOC 2012 with one to five boxes an image, and its record set."""
    base, draw = root / "VOCdevkit" / "VOC2012", random.Random(0)
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (base / folder).mkdir(parents=True, exist_ok=True)
    stems = []
    for number, data in enumerate(photos):
        stems.append(stem := f"2012_{number:06d}")
        width, height = Image.open(io.BytesIO(data)).size
        boxes = []
        for _ in range(draw.randint(1, 5)):
            left, top = draw.randrange(width // 2), draw.randrange(height // 2)
            box = left, top, draw.randrange(left + 1, width), draw.randrange(top + 1, height)
            boxes.append(_OBJECT.format(*box, name=draw.choice(("dog", "person", "car"))))
        text = _ANNOTATION.format(stem=stem, width=width, height=height, objects="".join(boxes))
        (base / "Annotations" / f"{stem}.xml").write_text(text, encoding="utf-8")
        (base / "JPEGImages" / f"{stem}.jpg").write_bytes(data)
    (base / "ImageSets" / "Main" / "train.txt").write_text("\n".join(stems) + "\n", encoding="utf-8")
    VOCDetectionRecord(root, prepare=True)
