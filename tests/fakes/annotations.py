"""Datasets of images with masks, boxes, points and polygons by code, with the oddities of the real ones."""

import functools
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torchvision.datasets as tv
from numpy.random import Generator
from PIL import Image
from scipy.sparse import csc_matrix
from torchvision.datasets.utils import extract_archive

from tests.fakes.fake import Case, by, fake, in_order, md5, tar, text, zipped
from tests.fakes.matlab import mat
from tests.fakes.mutations import IMG_INFO, PATHS, PETS, Mutations, change, change_item, rearranged
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import SIDE, enlarged, scaled

Files = dict[str, bytes]

_KINDS = ("Car", "Van", "Pedestrian", "Person_sitting", "Misc", "DontCare")


def _kitti_label(rng: Generator, count: int) -> bytes:
    lines = []
    for _ in range(count):
        kind = _KINDS[int(rng.integers(len(_KINDS)))]
        seen = "-1 -1 -10" if kind == "DontCare" else f"0.{rng.integers(99):02d} {rng.integers(4)} -1.57"
        lines.append(" ".join([kind, seen, *(f"{number:.2f}" for number in rng.normal(0, 300, 11))]))
    return text(lines)


@fake(
    "kitti",
    Case(
        "KittiRecord",
        ({}, {"train": False}),
        ({"transforms": print, "transform": print},),
        mutations=PATHS,
        theirs=in_order(tv.Kitti),
    ),
)
def kitti(rng: Generator) -> Files:
    """Two zips, members unsorted; images of several sizes, a grey one."""
    images: Files = {}
    labels: Files = {"training/label_2/": b""}
    for folder, count in (("testing", 4), ("training", scaled(7))):
        images[f"{folder}/image_2/"] = b""
        for number in rng.permutation(count).tolist():
            image = picture(rng, 50 + number % 20, 20)
            data = encoded(image.convert("L") if number == 2 else image, "PNG")
            images[f"{folder}/image_2/{number:06d}.png"] = data
            if folder == "training":
                labels[f"training/label_2/{number:06d}.txt"] = _kitti_label(rng, 1 + number % 3)
    return {"data_object_image_2.zip": zipped(images), "data_object_label_2.zip": zipped(labels)}


_CITIES = {
    "train": ("ulm", "aachen"),
    "val": ("munster", "frankfurt"),
    "test": ("berlin", "bonn"),
    "train_extra": ("troisdorf", "augsburg"),
}
_WIDTH, _HEIGHT = 24, 12
_BESIDE = {"README": b"Read me.", "license.txt": b"The license."}


def _street_stems(*splits: str) -> list[str]:
    more = [(f"{number:06d}", "000019") for number in range(2, scaled(3) - 1)]
    frames = (("000001", "000019"), ("000000", "000019"), ("000000", "000004"), *more)
    return [
        f"{split}/{city}/{city}_{sequence}_{frame}"
        for split in splits
        for city in _CITIES[split]
        for sequence, frame in frames[: (scaled if split == "train" else int)(3 if city == _CITIES[split][0] else 1)]
    ]


def _streets(rng: Generator, *splits: str) -> bytes:
    stems = _street_stems(*splits)
    files = {f"leftImg8bit/{stem}_leftImg8bit.png": encoded(picture(rng, _WIDTH, _HEIGHT), "PNG") for stem in stems}
    return zipped({**_BESIDE, **files})


def _street_targets(rng: Generator, folder: str, *splits: str) -> bytes:
    files = dict(_BESIDE)
    for stem in _street_stems(*splits):
        labels = enlarged(rng.choice(np.array([0, 7, 26], np.uint8), (_HEIGHT, _WIDTH)))
        instances = np.where(labels == 26, 26_001, labels.astype(np.uint16))
        color = enlarged(rng.integers(0, 256, (_HEIGHT, _WIDTH, 4), np.uint8))
        objects = [{"label": "car", "polygon": [[1, 2], [int(rng.integers(3, 9)), 4], [5, 6]]}]
        document = {"imgHeight": _HEIGHT * SIDE, "imgWidth": _WIDTH * SIDE, "objects": objects}
        start = f"{folder}/{stem}_{folder}_"
        files[start + "labelIds.png"] = encoded(Image.fromarray(labels), "PNG")
        files[start + "instanceIds.png"] = encoded(Image.fromarray(instances), "PNG")
        files[start + "labelTrainIds.png"] = b"what people make with the authors' scripts"
        files[start + "color.png"] = encoded(Image.fromarray(color), "PNG")
        files[start + "polygons.json"] = json.dumps(document).encode()
    return zipped(files)


_STREET_CASES = (
    {"target_type": "semantic"},  # the v2 wrapper fails on instances: torch cannot compare their 16 bits
    {"target_type": "instance"},
    {"split": "val", "target_type": "semantic"},
    {"split": "test", "target_type": "polygon"},
    {"target_type": "color"},
    {"target_type": ["instance", "color", "polygon", "semantic"]},
    {"mode": "coarse", "target_type": ["semantic"]},
    {"mode": "coarse", "split": "val", "target_type": ["polygon", "instance"]},
    {"mode": "coarse", "split": "train_extra", "target_type": "instance"},
    {"mode": "coarse", "split": "train_extra", "target_type": ["semantic", "color"]},
)
_STREET_BAD = (
    {"split": "train_extra"},
    {"split": "test", "mode": "coarse"},
    {"split": 3},
    *by("mode", "gtFine", None),
    *by("target_type", "mask", ["color", 3]),
    {"transforms": print, "transform": print},
)
_STREETS = {**PATHS, "one path of a target replaced": lambda ds: ds.targets[0].__setitem__(0, ds.targets[1][0])}


@fake("cityscapes", Case("CityscapesRecord", _STREET_CASES, _STREET_BAD, _STREETS, theirs=in_order(tv.Cityscapes)))
def cityscapes(rng: Generator) -> Files:
    """Street scenes of two cities a split, label images of all kinds, polygons."""
    return {
        "leftImg8bit_trainvaltest.zip": _streets(rng, "train", "val", "test"),
        "gtFine_trainvaltest.zip": _street_targets(rng, "gtFine", "train", "val", "test"),
        "leftImg8bit_trainextra.zip": _streets(rng, "train_extra"),
        "gtCoarse.zip": _street_targets(rng, "gtCoarse", "train", "train_extra", "val"),
    }


_MASKS = {**rearranged("images", "images", "one image", by=1), **rearranged("masks", "masks", "one mask", by=1)}


@functools.cache
def _boundaries(rng: Generator, width: int, height: int, folder: str) -> bytes:
    """Make a file; a folder has one for each size."""
    boundaries = np.empty((20, 1), object)
    for label in range(20):
        boundaries[label, 0] = csc_matrix(enlarged(rng.random((height, width)) > 0.97 + 0.001 * label), dtype=np.uint8)
    segmentation = enlarged(rng.integers(0, 21, (height, width), dtype=np.uint8))
    categories = np.unique(segmentation).reshape(-1, 1)
    return mat(GTcls={"Boundaries": boundaries, "Segmentation": segmentation, "CategoriesPresent": categories})


def _unpack_sbd(folder: Path) -> None:
    extract_archive(str(folder / "benchmark.tgz"), str(folder))
    for path in (folder / "benchmark_RELEASE" / "dataset").iterdir():
        shutil.move(path, folder)
    shutil.rmtree(folder / "benchmark_RELEASE")


_SBD_CASES = [
    {"image_set": each, "mode": mode} for each in ("val", "train_noval") for mode in ("boundaries", "segmentation")
]


@fake(
    "sbd",
    Case(
        "SBDatasetRecord",
        ({"mode": "segmentation"}, {}, *_SBD_CASES),
        ({"image_set": "test"}, *by("mode", "instances", None)),
        _MASKS,
    ),
    unpack=_unpack_sbd,
)
def sbd(rng: Generator) -> Files:
    """.mat files as MATLAB structures, boundaries as sparse matrices."""
    base, demo = "benchmark_RELEASE/dataset", "benchmark_RELEASE/benchmark_code_RELEASE/demo/datadir"
    files = {f"{demo}/cls/2008_000051.mat": b"not read", f"{demo}/img/2008_000051.jpg": b"not read"}
    stems = [f"2008_{number:06d}" for number in rng.permutation(scaled(900))[: scaled(7)].tolist()]
    for number, stem in enumerate(stems):
        width, height = 30 + number % 20, 24 + number % 3
        image = picture(rng, width, height)
        files[f"{base}/img/{stem}.jpg"] = jpeg(image.convert("L") if number == 1 else image)
        files[f"{base}/cls/{stem}.mat"] = _boundaries(rng, width, height, "cls")
        files[f"{base}/inst/{stem}.mat"] = _boundaries(rng, width, height, "inst")
    files[f"{base}/train.txt"] = text(stems[: scaled(4)])
    files[f"{base}/val.txt"] = text(stems[scaled(4) : scaled(6)])  # some images are in neither
    return {"benchmark.tgz": tar(files), "train_noval.txt": text([stems[5], *stems[:2]])}


_PET_KINDS = ("category", "binary-category", "segmentation")


@fake(
    "oxford_pets",
    Case(
        "OxfordIIITPetRecord",
        [
            {},
            *({"split": "test", "target_types": kind} for kind in _PET_KINDS),
            *by("target_types", ["category", "segmentation", "binary-category"], []),
        ],
        ({"split": "train"}, *by("target_types", "box", ["category", 3])),
        PETS,
    ),
)
def oxford_pets(rng: Generator) -> Files:
    """Photographs, trimaps and lists; a GIF and a PNG named .jpg, as the real ones have."""
    images: Files = {"images/Abyssinian_100.mat": b"not an image"}
    annotations = {"annotations/README": b"not read"}
    lines: dict[str, list[str]] = {"trainval": [], "test": []}
    kinds = {("Abyssinian", 2): "GIF", ("beagle", 3): "PNG"}
    for label, breed in enumerate(("Abyssinian", "american_bulldog", "beagle", "Birman"), 1):  # cats have capitals
        for number in range(1, 1 + scaled(4)):
            stem, width = f"{breed}_{number * 7}", 20 + number % 20
            image = picture(rng, width, 24)
            kind = kinds.get((breed, number))
            images[f"images/{stem}.jpg"] = encoded(image, kind) if kind else jpeg(image)
            trimap = Image.fromarray(enlarged(rng.integers(1, 4, (24, width), dtype=np.uint8)))
            annotations[f"annotations/trimaps/{stem}.png"] = encoded(trimap, "PNG")
            annotations[f"annotations/trimaps/._{stem}.png"] = b"what macOS leaves"
            species = 1 if breed[0].isupper() else 2
            lines["test" if number % 4 == 0 else "trainval"].append(f"{stem} {label} {species} 1")
    images["images/Birman_999.jpg"] = jpeg(picture(rng, 9, 9))  # in no list
    annotations |= {f"annotations/{split}.txt": text(listed) for split, listed in lines.items()}
    annotations["annotations/list.txt"] = b"#Image CLASS-ID SPECIES BREED ID\n"
    return {"images.tar.gz": tar(images), "annotations.tar.gz": tar(annotations)}


def _faces(rng: Generator, count: int) -> str:
    if not count:
        return "0\n0 0 0 0 0 0 0 0 0 0 \n"
    boxes = np.concatenate([rng.integers(0, 40, (count, 4)), rng.integers(0, 3, (count, 6))], 1)
    return f"{count}\n" + "".join(f"{' '.join(map(str, box))} \n" for box in boxes.tolist())


@fake(
    "wider_face",
    Case("WIDERFaceRecord", ({}, *by("split", "val", "test")), by("split", "valid", 1), mutations=IMG_INFO),
)
def wider_face(rng: Generator) -> Files:
    """Zips of images, lists in an order of their own; a photograph without faces, a grey one."""
    events = ("0--Parade", "10--People_Marching", "2--Demonstration")
    files: Files = {}
    lists: dict[str, str] = {"readme.txt": "x1, y1, w, h, blur, expression, illumination, invalid, occlusion, pose"}
    for split, count in (("train", 3), ("val", 2), ("test", 2)):
        images = {f"WIDER_{split}/": b"", f"WIDER_{split}/images/": b""}
        listed = ""
        for event in events:
            for number in range(scaled(count)):
                name = f"{event}/{event.partition('--')[0]}_{split}_{number}_{7 * number}.jpg"
                image = picture(rng, 40 + number % 20, 30)
                images[f"WIDER_{split}/images/{name}"] = jpeg(image.convert("L") if number == 1 else image)
                listed += f"{name}\n" + ("" if split == "test" else _faces(rng, number % 20))
        images[f"WIDER_{split}/images/{events[0]}/in_no_list.jpg"] = encoded(picture(rng, 9, 9), "JPEG")
        files[f"WIDER_{split}.zip"] = zipped(dict(reversed(images.items())))
        lists[f"wider_face_{split}_{'filelist' if split == 'test' else 'bbx_gt'}.txt"] = listed
        lists[f"wider_face_{split}.mat"] = "not read"
    files["wider_face_split.zip"] = zipped({f"wider_face_split/{name}": data.encode() for name, data in lists.items()})
    return files


FIELDS = ("5_o_Clock_Shadow", "Bald", "Male", "Smiling", "Young", *(f"Attribute_{number}" for number in range(6, 41)))
KINDS = ("attr", "identity", "bbox", "landmarks")

MUTATIONS: Mutations = {
    **rearranged("filename", "names", "one name", by=2),
    "attributes assigned": change("attr", lambda attr: attr * 7),
    "attributes shortened": change("attr", lambda attr: attr[:3]),
    "an attribute replaced": change_item("attr", 0, lambda attr: attr[1] + 5),
    "another target": lambda ds: setattr(ds, "target_type", ["identity", "bbox"]),
    "no target": lambda ds: setattr(ds, "target_type", []),
}


def _text(rows: Mapping[str, Sequence[int]], width: int, *head: str) -> bytes:
    lines = [f"{name} {' '.join(f'{number:{width}d}' for number in row)}" for name, row in rows.items()]
    return "".join(f"{line}\n" for line in (*head, *lines)).encode()


_ARGUMENTS = [
    {},
    *by("split", "valid", "TEST", "all"),
    *({"split": "all", "target_type": kind} for kind in KINDS[1:]),
    {"target_type": ["landmarks", "attr", "identity", "bbox"]},
    {"split": "valid", "target_type": ["bbox", "identity"]},
    {"target_type": ["identity"]},
]
_BAD = (*by("split", "val", 1), {"target_type": [], "target_transform": print})


def _file_list(files: Mapping[str, bytes]) -> Mapping[str, object]:
    return {"file_list": [("", md5(data), name) for name, data in files.items()]}


@fake("celeba", Case("CelebARecord", _ARGUMENTS, _BAD, MUTATIONS, _file_list))
def celeba(rng: Generator) -> dict[str, bytes]:
    """Aligned photographs, and lists of which some have unsorted rows."""
    names = [f"{number:06d}.jpg" for number in (1, 2, 3, 5, 4, 6, 7, 9, 8, *range(10, 1 + scaled(12)))]
    images = {f"img_align_celeba/{name}": jpeg(picture(rng, 20, 24)) for name in sorted(names)}
    images["img_align_celeba/000003.jpg"] = encoded(picture(rng, 20, 24).convert("L"), "JPEG")
    images["img_align_celeba/000099.jpg"] = jpeg(picture(rng, 9, 9))  # in no list
    partition = dict(zip(names, scaled(1) * [[0], [1], [2], [0], [0], [1], [0], [2], [0], [1], [0], [2]], strict=True))
    signs = {name: (2 * rng.integers(0, 2, len(FIELDS)) - 1).tolist() for name in names}
    identity = {name: rng.integers(1, 10178, 1).tolist() for name in names}
    boxes = {name: rng.integers(0, 2000, 4).tolist() for name in names}
    landmarks = {name: rng.integers(-3, 218, 10).tolist() for name in names}
    points = " ".join(f"point{number}_{axis}" for number in range(5) for axis in "xy")
    return {
        "img_align_celeba.zip": zipped({"img_align_celeba/": b"", **images}),
        "list_attr_celeba.txt": _text(signs, 2, str(len(names)), " ".join(FIELDS) + " "),
        "identity_CelebA.txt": _text(identity, 1),
        "list_bbox_celeba.txt": _text(boxes, 3, str(len(names)), "image_id x_1 y_1 width height"),
        "list_landmarks_align_celeba.txt": _text(landmarks, 4, str(len(names)), points),
        "list_eval_partition.txt": _text(partition, 1),
    }
