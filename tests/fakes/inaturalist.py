"""iNaturalist by code: folders of categories, numbered and named as in each year; tars in no order."""

import os
from pathlib import Path

from numpy.random import Generator
from torchvision.datasets import INaturalist
from torchvision.datasets.folder import default_loader
from torchvision.datasets.utils import extract_archive

from tests.fakes.fake import Case, by, fake, in_order, tar
from tests.fakes.mutations import Mutations, change, change_item, rearranged
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

SPECIES = (
    "00000_Animalia_Annelida_Clitellata_Haplotaxida_Lumbricidae_Lumbricus_terrestris",
    "00001_Animalia_Chordata_Aves_Passeriformes_Corvidae_Corvus_corax",
    "00002_Animalia_Chordata_Aves_Passeriformes_Corvidae_Pica_pica",
    "00003_Plantae_Bryophyta_Polytrichopsida_Polytrichales_Polytrichaceae_Polytrichum_commune",
)
NUMBERED = ("Plantae/3", "Aves/10", "Aves/2", "Plantae/0", "Aves/1", *(f"Reptilia/{n}" for n in (9, 4, 5, 6, 7, 8)))
FOLDERS = {
    "2017": ("train_val_images", ("Aves/Pica pica", "Aves/Corvus corax corax", "Aves B/Anas", "Plantae/Abies alba")),
    "2018": ("train_val2018", NUMBERED),
    "2019": (
        "train_val2019",
        tuple(f"{name.rpartition('/')[0]}/{int(name.rpartition('/')[2]):04d}" for name in NUMBERED),
    ),
    "2021_train": ("train", SPECIES),
    "2021_train_mini": ("train_mini", SPECIES),
    "2021_valid": ("val", SPECIES),
}

MUTATIONS: Mutations = {
    **rearranged("index", "index", "one sample", by=-1, keep=3),
    "a category's numbers replaced": change_item("categories_map", 1, lambda numbers: {"genus": 77}),
    "categories assigned": change("all_categories", lambda names: [names[0]] * len(names)),
    "no loader": lambda ds: setattr(ds, "loader", None),
    "a loader": lambda ds: setattr(ds, "loader", default_loader),
}


def _unpack(folder: Path) -> None:
    """Extract each archive, and call the folder like its version."""
    for version, (name, _) in FOLDERS.items():
        extract_archive(folder / f"{version}.tgz", folder)
        os.rename(folder / name, folder / version)


def _archive(rng: Generator, version: str) -> bytes:
    top, categories = FOLDERS[version]
    images = {}
    for category in categories:
        for number in rng.permutation(900)[: scaled(2) if version == "2021_train" else 2].tolist():
            images[f"{top}/{category}/{number:x}-{version}.jpg"] = jpeg(picture(rng, 20 + number % 7, 24))
    name = next(iter(images))
    images[name] = encoded(picture(rng, 22, 21).convert("L"), "JPEG")
    images[name.replace(".jpg", "b.jpg")] = encoded(picture(rng, 22, 21).convert("CMYK"), "JPEG")
    return tar({name: images[name] for name in rng.permutation(list(images)).tolist()})


_LEVELS = ["kingdom", "phylum", "class", "order", "family", "genus"]
_ARGUMENTS = (
    {"target_type": ["full", "genus"]},
    {},
    {"version": "2017"},
    {"version": "2017", "target_type": "super"},
    {"version": "2018", "target_type": ["super", "full"]},
    {"version": "2019", "loader": default_loader},
    {"version": "2021_train_mini", "target_type": _LEVELS},
    {"version": "2021_valid", "target_type": ["order"]},
)
_BAD = (
    *by("version", "2020", 2021),
    *by("target_type", "super", ["full", 3]),
    {"version": "2019", "target_type": "genus"},
)


@fake(
    "inaturalist", Case("INaturalistRecord", _ARGUMENTS, _BAD, MUTATIONS, theirs=in_order(INaturalist)), unpack=_unpack
)
def inaturalist(rng: Generator) -> dict[str, bytes]:
    """An archive for each version."""
    return {f"{version}.tgz": _archive(rng, version) for version in FOLDERS}
