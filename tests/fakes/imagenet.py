"""ImageNet (ILSVRC2012) by code: the three archives with their real names and layout, or torchvision's extracted tree.

Among the pictures is what the real set has: a PNG named .JPEG, a CMYK and a grayscale JPEG, and a broken EXIF block.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.io import savemat

from recordzoo.datasets.imagenet_recipe import all_wnids
from tests.fakes.fake import Case, by, fake, tar
from tests.fakes.folder import write_tree
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture, with_broken_exif
from tests.fakes.scale import scaled

TRAIN_ARCHIVE = "ILSVRC2012_img_train.tar"
VAL_ARCHIVE = "ILSVRC2012_img_val.tar"
DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"
KAGGLE_ARCHIVE = "imagenet-object-localization-challenge.zip"
KAGGLE_IMAGES = "ILSVRC/Data/CLS-LOC/"
KAGGLE_NOTES = "ILSVRC/Annotations/CLS-LOC/"

# WNIDs with their synonyms, sorted; "crane" stands for two classes in the real set too.
CLASSES = {
    "n01440764": "tench, Tinca tinca",
    "n01443537": "goldfish, Carassius auratus",
    "n02012849": "crane",
    "n02105855": "Shetland sheepdog, Shetland sheep dog, Shetland",
    "n03126707": "crane",
}


@dataclass(frozen=True)
class FakeImageNet:
    """The pictures by file name, in the order of their archives, and what the development kit says of them.

    Names are in one text for each WNID, those of validation pictures are in the order of the sorted file names.
    """

    synonyms: Mapping[str, str]
    train: Mapping[str, Mapping[str, bytes]]
    val: Mapping[str, bytes]
    val_wnids: tuple[str, ...]

    def split(self, name: str) -> dict[str, bytes]:
        """Give the pictures of "train" or "val" by ``<wnid>/<file>``."""
        if name == "train":
            return {f"{wnid}/{file}": data for wnid, files in self.train.items() for file, data in files.items()}
        wnid_of = dict(zip(sorted(self.val), self.val_wnids, strict=True))
        return {f"{wnid_of[file]}/{file}": data for file, data in self.val.items()}

    def archives(self) -> dict[str, bytes]:
        """Give the three archives of the authors' page."""
        inner = {f"{wnid}.tar": tar(files, compress=False) for wnid, files in self.train.items()}
        train, val = tar(inner, compress=False), tar(self.val, compress=False)
        return {TRAIN_ARCHIVE: train, VAL_ARCHIVE: val, DEVKIT: tar(devkit_files(self))}

    def write_val_archive(self, folder: Path) -> Path:
        return write_tree(folder, {VAL_ARCHIVE: tar(self.val, compress=False)})

    def write_tree(self, folder: Path, split: str) -> Path:
        """Lay out a split as torchvision extracts it."""
        return write_tree(folder / split, self.split(split))

    def kaggle_files(self) -> dict[str, bytes]:
        """Give the files of Kaggle's download, in an order that is not that of the names; some are of no use."""
        wnid_of = {Path(name).stem: Path(name).parts[0] for name in self.split("val")}
        rows = [f"{stem},{wnid} 85 1 499 272 {wnid} 10 20 30 40 \n" for stem, wnid in reversed(wnid_of.items())]
        notes = {f"{KAGGLE_NOTES}val/{stem}.xml": _annotation(stem, wnid) for stem, wnid in wnid_of.items()}
        synsets = "".join(f"{wnid} {names}\n" for wnid, names in self.synonyms.items())
        return {
            **notes,
            f"{KAGGLE_NOTES}train/n01440764/n01440764_1.xml": _annotation("n01440764_1", "n01440764"),
            **{f"{KAGGLE_IMAGES}test/ILSVRC2012_test_0000000{k}.JPEG": b"not wanted" for k in (1, 2)},
            **{f"{KAGGLE_IMAGES}train/{name}": data for name, data in reversed(self.split("train").items())},
            **{f"{KAGGLE_IMAGES}val/{name}": data for name, data in self.val.items()},
            "ILSVRC/ImageSets/CLS-LOC/val.txt": b"ILSVRC2012_val_00000001 1\n",
            "LOC_sample_submission.csv": b"ImageId,PredictionString\n",
            "LOC_synset_mapping.txt": synsets.encode(),
            "LOC_train_solution.csv": b"ImageId,PredictionString\nn01440764_1,n01440764 1 2 3 4 \n",
            "LOC_val_solution.csv": f"ImageId,PredictionString\n{''.join(rows)}".encode(),
        }

    def write_parquet(self, folder: Path, split: str, num_shards: int = 3) -> list[Path]:
        """Write a split as ILSVRC/imagenet-1k has it, shuffled, with paths such as n01440764_10_n01440764.JPEG."""
        import pyarrow
        from pyarrow import parquet

        name = {"train": "train", "val": "validation"}[split]
        images = list(self.split(split).items())
        rows = [images[k] for k in np.random.default_rng(1).permutation(len(images)).tolist()]
        paths = []
        for number in range(num_shards):
            columns = {"image": [], "label": []}
            for file, data in rows[number::num_shards]:
                wnid, stem = Path(file).parts[0], Path(file).stem
                columns["image"].append({"bytes": data, "path": f"{stem}_{wnid}.JPEG"})
                columns["label"].append(all_wnids().index(wnid))
            path = folder / f"{name}-{number:05d}-of-{num_shards:05d}.parquet"
            folder.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
            paths.append(path)
        return paths

    def write_meta_bin(self, folder: Path) -> Path:
        """Save what torchvision's `parse_devkit_archive` saves."""
        import torch

        synonyms = {wnid: tuple(names.split(", ")) for wnid, names in self.synonyms.items()}
        torch.save((synonyms, list(self.val_wnids)), folder / "meta.bin")
        return folder / "meta.bin"


def build(
    num_classes: int = 5, images_per_class: int = 4, *, size: tuple[int, int] = (48, 40), broken_exif: bool = True
) -> FakeImageNet:
    """Make the dataset; more classes than `CLASSES` get made-up WNIDs. Half as many pictures for validation.

    Of a broken EXIF block Pillow warns whenever the picture is loaded.
    """
    images_per_class, rng = scaled(images_per_class), np.random.default_rng(0)
    synonyms = dict(list(CLASSES.items())[:num_classes])
    for k in range(len(synonyms), num_classes):
        synonyms[f"n1{k:07d}"] = f"thing {k}, object {k}"
    train = {wnid: _pictures(rng, wnid, images_per_class, size, broken_exif) for wnid in synonyms}
    num_val = max(1, num_classes * images_per_class // 2)
    val_wnids = tuple(rng.permutation(np.resize(np.array(list(synonyms)), num_val)).tolist())
    names = [f"ILSVRC2012_val_{k:08d}.JPEG" for k in rng.permutation(num_val) + 1]
    val = {name: jpeg(picture(rng, *size)) for name in names}
    return FakeImageNet(synonyms, train, val, val_wnids)


def _pictures(
    rng: np.random.Generator, wnid: str, count: int, size: tuple[int, int], broken_exif: bool
) -> dict[str, bytes]:
    names = [f"{wnid}_{number}.JPEG" for number in rng.choice(20_000, count, replace=False).tolist()]
    photos = {name: picture(rng, *size, box=(5, 5, 20, 20)) for name in names}
    files = {name: jpeg(photo) for name, photo in photos.items()}
    if wnid == "n01440764":  # the kinds of file that every class has only one of
        odd = [
            lambda photo: encoded(photo, "PNG"),  # n02105855_2933.JPEG of the real set
            lambda photo: jpeg(photo.convert("CMYK")),
            lambda photo: jpeg(photo.convert("L")),
            lambda photo: with_broken_exif(jpeg(photo)) if broken_exif else jpeg(photo),
        ]
        files.update({name: make(photos[name]) for name, make in zip(names, odd, strict=False)})
    return files


def _annotation(stem: str, wnid: str) -> bytes:
    """Make the XML file of an image, with the boxes of two objects."""
    boxes = "".join(
        f"\t<object>\n\t\t<name>{wnid}</name>\n\t\t<pose>Unspecified</pose>\n\t</object>\n" for _ in range(2)
    )
    return f"<annotation>\n\t<folder>val</folder>\n\t<filename>{stem}</filename>\n{boxes}</annotation>\n".encode()


def devkit_files(fake: FakeImageNet) -> dict[str, bytes]:
    """Make the two files that matter: ``meta.mat``, a struct array of synsets, and the ground truth, one id a line."""
    # Neither the ids nor the rows are in the order of the WNIDs, and the inner nodes of WordNet come last.
    wnids = list(fake.synonyms)[::-1]
    kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O"), ("num_children", "O")]
    kind += [("children", "O"), ("wordnet_height", "O"), ("num_train_images", "O")]
    rows = [
        (float(k), wnid, fake.synonyms[wnid], "what it is", 0.0, np.array([], float), 0.0, 1300.0)
        for k, wnid in enumerate(wnids, 1)
    ]
    for k, name in enumerate(("n00001740", "n00004475"), len(wnids) + 1):
        rows.append((float(k), name, "entity, thing", "an inner node", 2.0, np.array([1.0, 2.0]), 5.0, 0.0))
    synsets = np.empty((len(rows), 1), dtype=kind)
    for k, row in enumerate(rows):
        synsets[k, 0] = row
    mat = io.BytesIO()
    savemat(mat, {"synsets": synsets})
    id_of = {wnid: k for k, wnid in enumerate(wnids, 1)}
    truth = "".join(f"{id_of[wnid]}\n" for wnid in fake.val_wnids)
    folder = "ILSVRC2012_devkit_t12/"
    return {
        folder + "readme.txt": b"Generated, in the layout of the ILSVRC2012 development kit.\n",
        # scipy writes the time into the first line of the file; the fake is the same every time.
        folder + "data/meta.mat": b"MATLAB 5.0 MAT-file, generated".ljust(116) + mat.getvalue()[116:],
        folder + "data/ILSVRC2012_validation_ground_truth.txt": truth.encode(),
    }


_FAKE = build(broken_exif=False)


def _unpack(folder: Path) -> None:
    _FAKE.write_meta_bin(folder)
    for split in ("train", "val"):
        _FAKE.write_tree(folder, split)


_CASE = Case("ImageNetRecord", ({}, {"split": "val"}), by("split", "test"), SAMPLES)


@fake("imagenet", _CASE, unpack=_unpack)
def imagenet(_: np.random.Generator) -> dict[str, bytes]:
    """The three archives of the authors' page."""
    return _FAKE.archives()
