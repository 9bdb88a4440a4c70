"""Caltech 101 and 256 by code: class folders with numbered images; grey ones, and files that are none."""

import io
import shutil
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.io import savemat
from torchvision.datasets.utils import extract_archive

from tests.fakes.fake import Case, Fake, tar, zipped
from tests.fakes.mutations import NUMBERED
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

CLASSES_256 = ("001.ak47", "002.american-flag", "003.dog", "004.spider", "005.clutter")
CLASSES_101 = ("Faces", "Faces_easy", "Motorbikes", "accordion", "airplanes", "wild_cat")
FOLDERS = {"Faces": "Faces_2", "Faces_easy": "Faces_3", "Motorbikes": "Motorbikes_16", "airplanes": "Airplanes_Side_2"}


def _image(rng: Generator, number: int) -> bytes:
    photo = picture(rng, 20 + number % 20, 24)
    return encoded(photo.convert("L"), "JPEG") if number == 2 else jpeg(photo)


def _build_256() -> Fake:
    rng = np.random.default_rng(0)
    files: dict[str, bytes] = {}
    for label, name in reversed(list(enumerate(CLASSES_256, 1))):
        for number in rng.permutation(np.arange(1, 1 + scaled(2 + label % 3))).tolist():
            files[f"256_ObjectCategories/{name}/{label:03d}_{number:04d}.jpg"] = _image(rng, number)
    files["256_ObjectCategories/004.spider/RENAME2"] = b"#!/bin/sh\n"
    files["256_ObjectCategories/003.dog/greg/vision309/003_0009.jpg"] = _image(rng, 9)
    case = Case("Caltech256Record", mutations=NUMBERED)
    return Fake("caltech256", {"256_ObjectCategories.tar": tar(files, compress=False)}, [case])


def _build_101() -> Fake:
    rng = np.random.default_rng(1)
    images: dict[str, bytes] = {}
    contours: dict[str, bytes] = {}
    for name in reversed(CLASSES_101):
        for number in range(1, 1 + scaled(2 + len(name) % 2)):
            images[f"101_ObjectCategories/{name}/image_{number:04d}.jpg"] = _image(rng, number)
            mat = io.BytesIO()
            points = rng.uniform(0, 20, (2, 5 + number % 20))
            savemat(mat, {"obj_contour": points, "box_coord": np.array([[2, 20, 1, 19]], np.uint16)})
            contours[f"Annotations/{FOLDERS.get(name, name)}/annotation_{number:04d}.mat"] = mat.getvalue()
    images["101_ObjectCategories/BACKGROUND_Google/image_0001.jpg"] = _image(rng, 1)
    images["101_ObjectCategories/BACKGROUND_Google/tmp"] = b"not an image"
    files = {
        "caltech-101/show_annotation.m": b"% not read\n",
        "caltech-101/101_ObjectCategories.tar.gz": tar(images),
        "caltech-101/Annotations.tar": tar(contours, compress=False),
    }
    arguments = ({}, {"target_type": "annotation"}, {"target_type": ["annotation", "category"]}, {"target_type": []})
    bad = ({"target_type": "list"}, {"target_type": ["category", 3]})
    case = Case("Caltech101Record", arguments, bad, NUMBERED)
    return Fake("caltech101", {"caltech-101.zip": zipped(files)}, [case], unpack=_unpack_101)


def _unpack_101(folder: Path) -> None:
    """Unpack both archives, as torchvision did when they were downloaded one by one; it now leaves the contours out."""
    extract_archive(folder / "caltech-101.zip", folder)
    for name in ("101_ObjectCategories.tar.gz", "Annotations.tar"):
        extract_archive(folder / "caltech-101" / name, folder)
    shutil.rmtree(folder / "caltech-101")


FAKES = (_build_101(), _build_256())
