"""Oxford-IIIT Pets by code: photographs, trimaps and lists; a GIF and a PNG named .jpg, as the real ones have."""

import numpy as np
from PIL import Image

from tests.fakes.fake import Case, Fake, tar
from tests.fakes.mutations import PETS
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import enlarged, scaled

BREEDS = ("Abyssinian", "american_bulldog", "beagle", "Birman")  # cats have capitals
KINDS = ("category", "binary-category", "segmentation")


def _build() -> Fake:
    rng = np.random.default_rng(0)
    images: dict[str, bytes] = {"images/Abyssinian_100.mat": b"not an image"}
    annotations = {"annotations/README": b"not read"}
    lines: dict[str, list[str]] = {"trainval": [], "test": []}
    for label, breed in enumerate(BREEDS, 1):
        for number in range(1, 1 + scaled(4)):
            stem = f"{breed}_{number * 7}"
            image = picture(rng, 20 + number % 20, 24)
            kinds = {("Abyssinian", 2): "GIF", ("beagle", 3): "PNG"}
            kind = kinds.get((breed, number))
            images[f"images/{stem}.jpg"] = encoded(image, kind) if kind else jpeg(image)
            trimap = Image.fromarray(enlarged(rng.integers(1, 4, (24, 20 + number % 20), dtype=np.uint8)))
            annotations[f"annotations/trimaps/{stem}.png"] = encoded(trimap, "PNG")
            annotations[f"annotations/trimaps/._{stem}.png"] = b"what macOS leaves"
            species = 1 if breed[0].isupper() else 2
            lines["test" if number % 4 == 0 else "trainval"].append(f"{stem} {label} {species} 1")
    images["images/Birman_999.jpg"] = jpeg(picture(rng, 9, 9))  # in no list
    for split, listed in lines.items():
        annotations[f"annotations/{split}.txt"] = "".join(f"{line}\n" for line in listed).encode()
    annotations["annotations/list.txt"] = b"#Image CLASS-ID SPECIES BREED ID\n"
    files = {"images.tar.gz": tar(images), "annotations.tar.gz": tar(annotations)}
    arguments = [
        {},
        *({"split": "test", "target_types": kind} for kind in KINDS),
        {"target_types": ["category", "segmentation", "binary-category"]},
        {"target_types": []},
    ]
    bad = ({"split": "train"}, {"target_types": "box"}, {"target_types": ["category", 3]})
    return Fake("oxford_pets", files, [Case("OxfordIIITPetRecord", arguments, bad, PETS)])


FAKES = (_build(),)
