"""Datasets of class folders by code, with the oddities of the real ones."""

import io
import shutil
from pathlib import Path

import numpy as np
import torchvision.datasets as tv
from numpy.random import Generator
from PIL import Image, ImageDraw
from scipy.io import savemat
from torchvision.datasets.folder import pil_loader
from torchvision.datasets.utils import extract_archive

from examples import birds  # its `picture`: as small as the real ones, whatever `scale.SIDE` says
from tests.fakes.fake import Case, by, fake, in_order, md5, tar, zipped
from tests.fakes.mutations import FILE_SAMPLES, NUMBERED, SAMPLES, Mutations, change_item, rearranged
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import SIDE, scaled

Files = dict[str, bytes]


@fake("country211", Case("Country211Record", ({}, *by("split", "valid", "test")), by("split", "val", None), SAMPLES))
def country211(rng: Generator) -> Files:
    """A folder for each split, in it one for each country, of large and small photographs."""
    files = {}
    for split, count in (("train", 3), ("valid", 1), ("test", 2)):
        for country in ("ZW", "DE", "AE", "AD"):  # not in the order of labels
            for number in rng.permutation(scaled(900))[: scaled(count)].tolist():
                photo = picture(rng, 24 + number % 7, 20 + number % 11)
                files[f"country211/{split}/{country}/{number}.jpg"] = jpeg(photo)
    return {"country211.tgz": tar(files)}


_LAND = "AnnualCrop Forest HerbaceousVegetation Highway Industrial Pasture PermanentCrop Residential River SeaLake"


@fake("eurosat", Case("EuroSATRecord", mutations=SAMPLES))
def eurosat(rng: Generator) -> Files:
    """A zip with the folder `2750/`, in it one folder for each class."""
    files = {
        f"2750/{name}/{name}_{number}.jpg": jpeg(birds.picture(rng, 64, 64))
        for name in _LAND.split()
        for number in (1, 10, 2, *range(11, 8 + scaled(3)))
    }
    return {"EuroSAT.zip": zipped(files)}


@fake(
    "rendered_sst2",
    Case("RenderedSST2Record", ({}, *by("split", "val", "test")), by("split", "valid", None), FILE_SAMPLES),
)
def rendered_sst2(rng: Generator) -> Files:
    """Black text on white, in a folder for each split and in it one for each class."""
    files = {}
    for split, count in (("train", 3), ("valid", 1), ("test", 2)):
        for name in ("positive", "negative"):  # not in the order of labels
            for number in rng.permutation(scaled(12))[: scaled(count)].tolist():
                image = Image.new("L" if number % 3 == 0 else "RGB", (SIDE * (44 + number % 20), SIDE * 44), "white")
                ImageDraw.Draw(image).text((2, 2), f"{name[:3]} {number}", fill="black")
                files[f"rendered-sst2/{split}/{name}/{number}.png"] = encoded(image, "png")
    files["rendered-sst2/train/positive/notes.txt"] = b"no image"
    return {"rendered-sst2.tgz": tar(files)}


_IMAGENETTE = (
    *("n01440764", "n02102040", "n02979186", "n03000684", "n03028079"),
    *("n03394916", "n03417042", "n03425413", "n03445777", "n03888257"),
)
_SIZES = {"full": ("imagenette2", 60), "320px": ("imagenette2-320", 32), "160px": ("imagenette2-160", 16)}


@fake(
    "imagenette",
    Case(
        "ImagenetteRecord",
        [{"split": split, "size": size} for size in _SIZES for split in ("train", "val")],
        (*by("split", "test"), *by("size", "64px", None)),
        FILE_SAMPLES,
    ),
)
def imagenette(_: Generator) -> Files:
    """Class folders named by WNIDs, in three sizes; `.JPEG` as ImageNet has it."""
    archives = {}
    for folder, side in _SIZES.values():
        rng = np.random.default_rng(side)
        files = {f"{folder}/noisy_imagenette.csv": b"path,noisy_labels_0\n"}
        for split, count in (("train", 2), ("val", 1)):
            taken = scaled(count) if (split, side) == ("train", 60) else count
            for wnid in _IMAGENETTE:
                for number in rng.permutation(9000)[:taken].tolist():
                    photo = picture(rng, side + number % 7, side + number % 11)
                    files[f"{folder}/{split}/{wnid}/{wnid}_{number}.JPEG"] = jpeg(photo)
        archives[f"{folder}.tgz"] = tar(files)
    return archives


def _numbered(rng: Generator, number: int) -> bytes:
    photo = picture(rng, 20 + number % 20, 24)
    return encoded(photo.convert("L"), "JPEG") if number == 2 else jpeg(photo)


@fake("caltech256", Case("Caltech256Record", mutations=NUMBERED))
def caltech256(rng: Generator) -> Files:
    """Class folders with numbered images, and files that are none."""
    files: Files = {}
    classes = ("001.ak47", "002.american-flag", "003.dog", "004.spider", "005.clutter")
    for label, name in reversed(list(enumerate(classes, 1))):
        for number in rng.permutation(np.arange(1, 1 + scaled(2 + label % 3))).tolist():
            files[f"256_ObjectCategories/{name}/{label:03d}_{number:04d}.jpg"] = _numbered(rng, number)
    files["256_ObjectCategories/004.spider/RENAME2"] = b"#!/bin/sh\n"
    files["256_ObjectCategories/003.dog/greg/vision309/003_0009.jpg"] = _numbered(rng, 9)
    return {"256_ObjectCategories.tar": tar(files, compress=False)}


def _unpack_caltech101(folder: Path) -> None:
    """Unpack both archives, as torchvision did when they were downloaded one by one; it now leaves the contours out."""
    extract_archive(folder / "caltech-101.zip", folder)
    for name in ("101_ObjectCategories.tar.gz", "Annotations.tar"):
        extract_archive(folder / "caltech-101" / name, folder)
    shutil.rmtree(folder / "caltech-101")


@fake(
    "caltech101",
    Case(
        "Caltech101Record",
        ({}, *by("target_type", "annotation", ["annotation", "category"], [])),
        by("target_type", "list", ["category", 3]),
        NUMBERED,
    ),
    seed=1,
    unpack=_unpack_caltech101,
)
def caltech101(rng: Generator) -> Files:
    """As Caltech 256, and contours; two archives in one."""
    images, contours = {}, {}
    folders = {"Faces": "Faces_2", "Faces_easy": "Faces_3", "Motorbikes": "Motorbikes_16"}
    folders["airplanes"] = "Airplanes_Side_2"
    for name in ("wild_cat", "airplanes", "accordion", "Motorbikes", "Faces_easy", "Faces"):
        for number in range(1, 1 + scaled(2 + len(name) % 2)):
            images[f"101_ObjectCategories/{name}/image_{number:04d}.jpg"] = _numbered(rng, number)
            points = rng.uniform(0, 20, (2, 5 + number % 20))
            contour = f"Annotations/{folders.get(name, name)}/annotation_{number:04d}.mat"
            file = io.BytesIO()
            savemat(file, {"obj_contour": points, "box_coord": np.array([[2, 20, 1, 19]], np.uint16)})
            contours[contour] = file.getvalue()
    images["101_ObjectCategories/BACKGROUND_Google/image_0001.jpg"] = _numbered(rng, 1)
    images["101_ObjectCategories/BACKGROUND_Google/tmp"] = b"not an image"
    files = {
        "caltech-101/show_annotation.m": b"% not read\n",
        "caltech-101/101_ObjectCategories.tar.gz": tar(images),
        "caltech-101/Annotations.tar": tar(contours, compress=False),
    }
    return {"caltech-101.zip": zipped(files)}


_COLUMNS = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2"


def _sign(name: str, width: int, height: int, *more: int) -> str:
    return ";".join(map(str, (name, width, height, 5, 5, width - 5, height - 5, *more))) + "\r\n"


_A_SLICE = (r"^'tuple' object has no attribute 'read'", "^expected str, bytes or os.PathLike object, not tuple")


@fake(
    "gtsrb",
    Case(
        "GTSRBRecord",
        ({}, {"split": "test"}),
        by("split", "val", None),
        FILE_SAMPLES,
        differences=[(*_A_SLICE, "a slice of two samples is taken for a path, by Pillow or by Python's open")],
    ),
)
def gtsrb(rng: Generator) -> Files:
    """.ppm photographs in class folders with a list each, and a test set whose labels are in another zip."""
    training = {"GTSRB/Readme-Images.txt": b"signs"}
    for label in (14, 0, 42):
        folder, rows = f"GTSRB/Training/{label:05d}", f"{_COLUMNS};ClassId\r\n"
        for track in range(scaled(2)):
            for frame in (1, 0):
                name, width, height = f"{track:05d}_{frame:05d}.ppm", 15 + 3 * frame + label, 16 + track % 20
                training[f"{folder}/{name}"] = encoded(birds.picture(rng, width, height), "ppm")
                rows += _sign(name, width, height, label)
        training[f"{folder}/GT-{label:05d}.csv"] = rows.encode()
    folder = "GTSRB/Final_Test/Images"
    test = {"GTSRB/Readme-Images-Final-test.txt": b"signs without labels"}
    unlabelled, labelled = f"{_COLUMNS}\r\n", f"{_COLUMNS};ClassId\r\n"
    for number in (0, 1, 3, 2, *range(4, scaled(5))):  # the list is the order, whatever the files are called
        name, width, height = f"{number:05d}.ppm", 20 + number % 20, 22
        test[f"{folder}/{name}"] = encoded(birds.picture(rng, width, height), "ppm")
        unlabelled += _sign(name, width, height)
        labelled += _sign(name, width, height, int(rng.integers(43)))
    test[f"{folder}/GT-final_test.test.csv"] = unlabelled.encode()  # it has no labels
    test[f"{folder}/unlisted.ppm"] = encoded(birds.picture(rng, 20, 20), "ppm")
    return {
        "GTSRB-Training_fixed.zip": zipped(training),
        "GTSRB_Final_Test_Images.zip": zipped(test),
        "GTSRB_Final_Test_GT.zip": zipped({"GT-final_test.csv": labelled.encode()}),
    }


_CHARACTERS: Mutations = {
    **rearranged("_flat_character_images", "images", "one image", by=3, keep=3),
    "a label replaced": change_item("_flat_character_images", 0, lambda images: (images[0][0], 4)),  # no such file
    "characters changed": change_item("_characters", 1, lambda characters: characters[0]),
}
_ALPHABETS = {
    "background": {"Korean": (2, 1), "Japanese_(hiragana)": (10, 1, 9), "Japanese": (1,)},
    "evaluation": {"Angelic": (1, 2), "ULOG": (1,)},
}
_NOTES = {
    "background": {
        "Korean/notes.png": b"beside the characters",
        "Korean/character01/strokes/0001_01.png": b"below a character",
    },
    "evaluation": {"ULOG/character01/0001_01.PNG": b"torchvision wants .png"},
}


@fake(
    "omniglot",
    Case(
        "OmniglotRecord",
        ({}, {"background": False, "loader": pil_loader}),
        mutations=_CHARACTERS,
        attributes=lambda files: {"zips_md5": {name.removesuffix(".zip"): md5(data) for name, data in files.items()}},
        theirs=in_order(tv.Omniglot),
    ),
    keeps_archives=True,
)
def omniglot(rng: Generator) -> Files:
    """Two zips of black-and-white images, in folders of alphabets and in them of characters."""
    zips = {}
    for part, alphabets in _ALPHABETS.items():
        files = {}
        for alphabet, characters in alphabets.items():
            for character in characters:
                folder = f"images_{part}/{alphabet}/character{character:02d}"
                for drawer in (3, 1, 12, *range(13, 10 + scaled(3))):
                    image = Image.fromarray(rng.integers(0, 2, (35, 35), dtype=np.uint8) * 255)
                    kind = "L" if drawer == 3 else "1"  # all real ones have 1 bit
                    files[f"{folder}/{character:04d}_{drawer:02d}.png"] = encoded(image.convert(kind), "png")
        notes = {f"images_{part}/{name}": data for name, data in _NOTES[part].items()}
        zips[f"images_{part}.zip"] = zipped({**files, **notes})
    return zips
