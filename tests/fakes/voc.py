"""Pascal VOC by code: the real layout, annotations with one, several and no objects, masks for some; seeded."""

import numpy as np
from PIL import Image

from recordzoo import catalogue
from recordzoo.datasets.pairs_recipe import voc_folder
from tests.fakes.fake import Case, Fake, by, fake, tar, text
from tests.fakes.mutations import PATHS
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import SIDE, enlarged, scaled

CATEGORIES = ("person", "dog", "tvmonitor", "car", "sheep")


def members(part: str = "2012", num_images: int = 12, seed: int = 0) -> dict[str, bytes]:
    """Make the files of a year: most images are in the lists of detection, a third also in those of segmentation."""
    rng = np.random.default_rng(seed)
    base = voc_folder(part)
    stems = [f"2007_{number:06d}" for number in rng.permutation(scaled(900))[: scaled(num_images)].tolist()]
    files: dict[str, bytes] = {}
    step = 1 if SIDE == 1 else 10  # large pictures of few sizes are soon made
    for number, stem in enumerate(stems):
        width, height = (int(side) // step * step for side in rng.integers(30, 60, 2))
        files[f"{base}/JPEGImages/{stem}.jpg"] = jpeg(picture(rng, width, height))
        files[f"{base}/Annotations/{stem}.xml"] = _annotation(rng, stem, width * SIDE, height * SIDE, 1 + number % 3)
        if number % 3 == 0:
            files[f"{base}/SegmentationClass/{stem}.png"] = _mask(rng, width, height)
            files[f"{base}/SegmentationObject/{stem}.png"] = _mask(rng, width, height)
    listed = stems[:-1]  # one image is in no list
    half = len(listed) // 2
    sets = {"train": listed[:half], "val": listed[half:], "trainval": sorted(listed)}
    sets = {"test": listed} if part.endswith("-test") else sets
    with_mask = {stem for number, stem in enumerate(stems) if number % 3 == 0}
    for name, members in sets.items():
        files[f"{base}/ImageSets/Main/{name}.txt"] = text(members)
        files[f"{base}/ImageSets/Main/dog_{name}.txt"] = text([f"{stem} -1" for stem in members])
        files[f"{base}/ImageSets/Segmentation/{name}.txt"] = text([stem for stem in members if stem in with_mask])
    return files


def build(part: str = "2012", num_images: int = 12, seed: int = 0) -> Fake:
    """Pack the files of a year."""
    (archive,) = catalogue.entry("voc").raw_files(part)
    return Fake("voc", {archive.name: tar(members(part, num_images, seed), compress=False)}, ())


def _mask(rng: np.random.Generator, width: int, height: int) -> bytes:
    mask = Image.fromarray(enlarged(rng.choice(np.array([0, 1, 15, 255], np.uint8), (height, width)))).convert("L")
    mask = mask.convert("P")
    mask.putpalette(rng.integers(0, 256, 768, dtype=np.uint8).tobytes())
    return encoded(mask, "PNG")


def _annotation(rng: np.random.Generator, stem: str, width: int, height: int, num_objects: int) -> bytes:
    objects = ""
    for _ in range(num_objects):
        x, y = (int(value) for value in rng.integers(1, 15, 2))
        part = "<part><name>head</name><bndbox><xmin>2</xmin><ymin>2</ymin><xmax>5</xmax><ymax>5</ymax></bndbox></part>"
        objects += f"""
	<object>
		<name>{CATEGORIES[int(rng.integers(len(CATEGORIES)))]}</name>
		<pose>Unspecified</pose>
		<difficult>0</difficult>
		<bndbox><xmin>{x}</xmin><ymin>{y}</ymin><xmax>{x + 12}</xmax><ymax>{y + 10}</ymax></bndbox>
		{part * int(rng.integers(3))}
	</object>"""
    return f"""<annotation>
	<folder>VOC2012</folder>
	<filename>{stem}.jpg</filename>
	<size><width>{width}</width><height>{height}</height><depth>3</depth></size>
	<segmented>0</segmented>{objects}
</annotation>
""".encode()


_BAD = (*by("year", "1999", 2012), *by("image_set", "test", None), {"transforms": print, "transform": print})


@fake(
    "voc",
    Case("VOCDetectionRecord", ({}, {"image_set": "val"}), _BAD, PATHS),
    Case("VOCSegmentationRecord", ({"image_set": "trainval"},), _BAD, PATHS),
)
def voc(_: np.random.Generator) -> dict[str, bytes]:
    """The year 2012."""
    return dict(build().files)
