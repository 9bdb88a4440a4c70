"""Datasets that torchvision lacks by code, each beside a plain reading of its tree, as people write it themselves."""

import os
import uuid
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
from numpy.random import Generator
from PIL import Image
from scipy.io import loadmat

from examples import birds  # its `picture`: as small as the real ones, whatever `scale.SIDE` says
from tests.fakes import reading
from tests.fakes.fake import Case, by, fake, tar, text, zipped
from tests.fakes.matlab import mat
from tests.fakes.mutations import SAMPLES
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import enlarged, scaled

Files = dict[str, bytes]


class Plain(reading.Files):
    """Samples with several kinds of targets: the first one is the label, `read_target` reads the others."""

    target_type: Any

    def read_target(self, kind: str, path: str) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        sample = self.loader(path)

        def target_of(kind: str) -> Any:
            return label if kind == self._choices["target_type"][0] else self.read_target(kind, path)

        several = isinstance(self.target_type, list)
        target = tuple(map(target_of, self.target_type)) if several else target_of(self.target_type)
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target


# Any: arguments of any type.
def _case(name: str, theirs: type, one: str, other: Any, several: list[str], bad_split: str, *bad: Any) -> Case:
    """Compare the label, one kind of target, another one, and several; `bad` are kinds that are refused."""
    arguments = (
        {},
        {"split": "test"},
        {"target_type": one},
        {"split": "test", "target_type": other},
        {"target_type": several},
    )
    return Case(name, arguments, ({"split": bad_split}, *by("target_type", *bad)), SAMPLES, theirs=theirs)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


class PlainBirds(Plain, split=("train", "test"), target_type=("category", "bbox", "segmentation")):
    """What people write over the three extracted archives of CUB-200 of 2010."""

    # Any: one kind of target, or several.
    def read(self, root: Path, split: str = "train", *, target_type: Any = "category") -> list[str]:
        images = root / "cub200_2010" / "images"
        names = _lines(root / "cub200_2010" / "lists" / f"{self.split}.txt")
        self.samples = [(str(images / name), int(name[:3]) - 1) for name in names]
        return sorted(os.listdir(images))

    def read_target(self, kind: str, path: str) -> Any:
        annotation = loadmat(path.replace("/images/", "/annotations-mat/").replace(".jpg", ".mat"))
        if kind == "segmentation":
            return Image.fromarray(annotation["seg"])
        box = annotation["bbox"]
        return torch.tensor([float(box[side][0, 0][0, 0]) for side in ("left", "top", "right", "bottom")])


_BIRD_KINDS = ("bbox", "segmentation", ["segmentation", "category", "bbox"], "all", "boxes", ["bbox", None])


@fake("cub200_2010", _case("CUB200_2010Record", PlainBirds, *_BIRD_KINDS))
def cub200_2010(rng: Generator) -> Files:
    """Photographs in class folders, a MATLAB file with a box and a mask for each, lists."""
    images, annotations = {}, {}
    lines: dict[str, list[str]] = {"train": [], "test": []}
    for bird in ("001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross"):
        for number in range(1, 1 + scaled(5)):
            stem = f"{bird}/{bird.partition('.')[2]}_{number:04d}_{rng.integers(10**9)}"
            width, height = 30 + number % 20, 24
            image = picture(rng, width, height)
            images[f"images/{stem}.jpg"] = encoded(image.convert("L"), "JPEG") if number == 2 else jpeg(image)
            annotations[f"annotations-mat/{stem}.mat"] = mat(
                bbox={"left": number, "top": 3, "right": 20 + number % 20, "bottom": np.uint16(22)},
                seg=enlarged(rng.integers(0, 3, (height, width), dtype=np.uint8)),
                wikipedia_url="http://en.wikipedia.org/wiki/Albatross",
            )
            lines["test" if number % 5 in (1, 4) else "train"].insert(0, f"{stem}.jpg")
    images["images/001.Black_footed_Albatross/._junk.jpg"] = b"what macOS leaves"
    annotations["annotations-mat/README.txt"] = b"not read"
    lists = {f"lists/{split}.txt": text(names) for split, names in lines.items()}
    lists["lists/files.txt"] = b"".join(lists.values())
    return {"images.tgz": tar(images), "annotations.tgz": tar(annotations), "lists.tgz": tar(lists)}


_NODES = {
    0: "Birds",
    1: "Ducks, Geese, and Swans",
    82: "Common Eider",
    295: "Common Eider (Adult male)",
    296: "Common Eider (Female/juvenile)",
    1010: "Hawks",
    817: "Oak Titmouse",
}
_PARENTS = {1: 0, 1010: 0, 82: 1, 295: 82, 296: 82, 817: 1010}
_PARTS = ("bill", "crown", "nape", "left eye", *(f"part {number}" for number in range(4, 11)))


class PlainNABirds(Plain, split=("train", "test"), target_type=("category", "bbox", "parts")):
    """What people write from the formats of the authors' lists."""

    # Any: one kind of target, or several.
    def read(self, root: Path, split: str = "train", *, target_type: Any = "category") -> list[str]:
        self._folder = root / "nabirds"
        numbers = {image: int(number) for image, number in self._rows("image_class_labels")}
        leaves = sorted(set(numbers.values()))
        is_train = dict(self._rows("train_test_split"))
        path_of = {image: str(self._folder / "images" / name) for image, name in self._rows("images")}
        self._image_of = {path: image for image, path in path_of.items()}
        self.node_names = {int(number): " ".join(words) for number, *words in self._rows("classes")}
        self.class_names = [self.node_names[number] for number in leaves]
        self.parents = {int(child): int(parent) for child, parent in self._rows("hierarchy")}
        self.part_names = [" ".join(words) for _, *words in self._rows("parts/parts")]
        wanted = [image for image in path_of if (is_train[image] == "1") == (self.split == "train")]
        self.samples = sorted((path_of[image], leaves.index(numbers[image])) for image in wanted)
        return sorted(os.listdir(self._folder / "images"))

    def _rows(self, name: str) -> list[list[str]]:
        return [line.split() for line in _lines(self._folder / f"{name}.txt")]

    def read_target(self, kind: str, path: str) -> torch.Tensor:
        image = self._image_of[path]
        if kind == "bbox":
            (box,) = [rest for each, *rest in self._rows("bounding_boxes") if each == image]
            return torch.tensor([float(side) for side in box])
        parts = torch.zeros(len(_PARTS), 3)
        for each, part, *where in self._rows("parts/part_locs"):
            if each == image:
                parts[int(part)] = torch.tensor([float(value) for value in where])
        return parts


_NABIRDS_KINDS = ("bbox", "parts", ["parts", "category", "bbox"], "all", "boxes", ["bbox", 0])


@fake("nabirds", _case("NABirdsRecord", PlainNABirds, *_NABIRDS_KINDS))
def nabirds(rng: Generator) -> Files:
    """Sparse numbers of classes, a hierarchy, UUIDs with dashes in the lists and without in the paths."""
    lines: dict[str, list[str]] = {
        "classes": [f"{number} {name}" for number, name in _NODES.items()],
        "hierarchy": [f"{child} {parent}" for child, parent in _PARENTS.items()],
        "parts/parts": [f"{number} {name}" for number, name in enumerate(_PARTS)],
    }
    names = ("images", "image_class_labels", "train_test_split", "bounding_boxes", "sizes", "parts/part_locs")
    lines.update({name: [] for name in names})
    files = {"nabirds/README": b"NABirds.", "nabirds/nabirds.py": b"import os\n"}
    for number in range(scaled(15)):
        leaf, image = (817, 295, 296)[number % 3], uuid.UUID(bytes=rng.bytes(16))
        left = number % 20
        made = picture(rng, 30 + left, 24)
        name = f"{leaf:04d}/{image.hex}.jpg"
        files[f"nabirds/images/{name}"] = encoded(made.convert("L"), "JPEG") if number == 4 else jpeg(made)
        values = (name, leaf, int(number % 5 > 1), f"{left} 2 {20 + left} 19", f"{30 + left} 24")
        for each, value in zip(names, values, strict=False):
            lines[each].append(f"{image} {value}")
        for part in range(len(_PARTS)):
            seen = int(rng.integers(2))
            lines["parts/part_locs"].append(f"{image} {part} {7 * seen} {(3 + part) * seen} {seen}")
    files |= {f"nabirds/{name}.txt": text(found) for name, found in lines.items()}
    return {"nabirds.tar.gz": tar(files)}


_SOP = "Stanford_Online_Products"


class PlainProducts(Plain, split=("train", "test"), target_type=("category", "super_category")):
    """What people write over the lists of Stanford Online Products."""

    # Any: one kind of target, or several.
    def read(self, root: Path, split: str = "train", *, target_type: Any = "category") -> list[str]:
        top = root / _SOP
        lists = {name: _lines(top / f"Ebay_{name}.txt")[1:] for name in ("train", "test")}
        rows = [line.split() for line in lists[self.split]]
        self._kind_of = {str(top / name): int(kind) - 1 for _, _, kind, name in rows}
        folders = [name for name in sorted(os.listdir(top)) if name.endswith("_final")]
        self.super_classes = [name.removesuffix("_final") for name in folders]
        num_products = max(int(line.split()[1]) for listed in lists.values() for line in listed)
        self.samples = [(str(top / name), int(product) - 1) for _, product, _, name in rows]
        return [str(number) for number in range(1, num_products + 1)]

    def read_target(self, kind: str, path: str) -> int:
        return self._kind_of[path]


@fake(
    "online_products",
    Case(
        "OnlineProductsRecord",
        (
            {},
            {"split": "test"},
            {"target_type": "super_category"},
            {"split": "test", "target_type": ["super_category", "category"]},
        ),
        ({"split": "info"}, *by("target_type", "class", ["category", None])),
        SAMPLES,
        theirs=PlainProducts,
    ),
)
def online_products(rng: Generator) -> Files:
    """Lists with a header and numbers from 1, products in one split only, .JPG."""
    header = "image_id class_id super_class_id path\n"
    lists, files, image_id, product = {"train": header, "test": header}, {}, 0, 0
    kinds = ("bicycle", "cabinet", "chair")
    for split in lists:
        for kind, kind_name in enumerate(kinds, 1):
            for _ in range(scaled(2)):
                product += 1
                item = int(rng.integers(11 * 10**10, 41 * 10**10))
                for number in range(2 + product % 2):
                    image_id += 1
                    name = f"{kind_name}_final/{item}_{number}.JPG"
                    made = picture(rng, 30 + number, 24)
                    files[f"{_SOP}/{name}"] = encoded(made.convert("L"), "JPEG") if image_id == 4 else jpeg(made)
                    lists[split] += f"{image_id} {product} {kind} {name}\n"
    files |= {f"{_SOP}/{kind}.txt": b"not read" for kind in kinds}
    files |= {f"{_SOP}/Ebay_{split}.txt": listed.encode() for split, listed in lists.items()}
    files[f"{_SOP}/Ebay_info.txt"] = (lists["train"] + lists["test"].removeprefix(header)).encode()
    files["__MACOSX/._Stanford_Online_Products"] = b"what macOS leaves"
    return {f"{_SOP}.zip": zipped(files)}


_BREEDS = ("n02085620-Chihuahua", "n02085782-Japanese_spaniel", "n02093256-Staffordshire_bullterrier")


class PlainDogs(Plain, split=("train", "test"), target_type=("category", "boxes")):
    """What people write from the README of Stanford Dogs."""

    # Any: one kind of target, or several.
    def read(self, root: Path, split: str = "train", *, target_type: Any = "category") -> list[str]:
        folder = root / "stanford_dogs"
        with open(folder / f"{self.split}_list.mat", "rb") as file:
            listed = loadmat(file)
        paths = [str(folder / "Images" / str(cell[0][0])) for cell in listed["file_list"]]
        labels = [int(cell[0]) - 1 for cell in listed["labels"]]
        self.samples = list(zip(paths, labels, strict=True))
        return sorted(os.listdir(folder / "Images"))

    def read_target(self, kind: str, path: str) -> torch.Tensor:
        tree = ElementTree.parse(path.replace("Images", "Annotation").removesuffix(".jpg"))
        return torch.tensor([[float(side.text or "") for side in box] for box in tree.iter("bndbox")])


def _dog(rng: Generator, name: str, num_dogs: int) -> bytes:
    lines = ["<annotation>", f"\t<filename>{name}</filename>"]
    lines.append("\t<size><width>30</width><height>24</height></size>")
    for _ in range(num_dogs):
        left, top = (int(value) for value in rng.integers(1, 12, 2))
        lines += ["\t<object>", "\t\t<name>Chihuahua</name>", "\t\t<bndbox>"]
        sides = {"xmin": left, "ymin": top, "xmax": left + 9, "ymax": top + 8}
        lines += [f"\t\t\t<{side}>{value}</{side}>" for side, value in sides.items()]
        lines += ["\t\t</bndbox>", "\t</object>"]
    return text(lines) + b"</annotation>"


def _dogs(names: list[str]) -> bytes:
    """The variables of the real lists: columns of cells, and labels from 1."""
    column = np.array(names, object).reshape(-1, 1)
    labels = np.array([[_BREEDS.index(name.partition("/")[0]) + 1] for name in names], np.float64)
    stems = np.array([name.removesuffix(".jpg") for name in names], object).reshape(-1, 1)
    return mat(file_list=column, annotation_list=stems, labels=labels)


_DOG_KINDS = ("boxes", ["boxes", "category"], ["category"], "val", "bbox", ["category", 1])


@fake("stanford_dogs", _case("StanfordDogsRecord", PlainDogs, *_DOG_KINDS))
def stanford_dogs(rng: Generator) -> Files:
    """Class folders, annotations without an ending, MATLAB lists with labels from 1."""
    images, annotations, names = {}, {}, []
    for breed in reversed(_BREEDS):
        for number in rng.permutation(9000)[: scaled(5)].tolist():
            stem = f"{breed}/{breed.partition('-')[0]}_{number}"
            image = picture(rng, 30, 24)
            odd = len(names) == 2  # one of the real ones is a PNG with an alpha channel, named .jpg
            images[f"Images/{stem}.jpg"] = encoded(image.convert("RGBA"), "PNG") if odd else jpeg(image)
            annotations[f"Annotation/{stem}"] = _dog(rng, stem, 1 + len(names) % 3)
            names.append(f"{stem}.jpg")
    train = [name for place, name in enumerate(names) if place % 5 < 3]
    test = [name for place, name in enumerate(names) if place % 5 >= 3]
    lists = {"file_list.mat": _dogs(names), "test_list.mat": _dogs(test), "train_list.mat": _dogs(train)}
    archives = {"images.tar": images, "annotation.tar": annotations, "lists.tar": lists}
    return {name: tar(files, compress=False) for name, files in archives.items()}


_TINY = "tiny-imagenet-200"
_WNIDS = ("n02124075", "n04067472", "n01443537")  # in the order of wnids.txt, which is nobody's
_WORDS = {"n01443537": "goldfish, Carassius auratus", "n02124075": "Egyptian cat", "n04067472": "reel"}


class PlainTinyImageNet(Plain, split=("train", "val", "test"), target_type=("category", "bbox")):
    """What people write: ImageFolder's order and labels, also for the folder to validate."""

    # Any: one kind of target, or several.
    def read(self, root: Path, split: str = "train", *, target_type: Any = "category") -> list[str]:
        if self.split == "test" and "bbox" in self.target_type:
            raise ValueError("The authors published no boxes for split='test'. Take target_type='category'.")
        top = root / _TINY
        wnids = sorted((top / "wnids.txt").read_text().split())
        words = dict(line.split("\t") for line in _lines(top / "words.txt"))
        self.class_names = [words[wnid] for wnid in wnids]
        lists = {"train": sorted((top / "train").glob("*/*_boxes.txt")), "val": [top / "val" / "val_annotations.txt"]}
        rows = [line.split("\t") for path in lists.get(self.split, []) for line in _lines(path)]
        self._rows = {row[0]: row[1:] for row in rows}
        paths = sorted(map(str, (top / self.split).rglob("*.JPEG")))
        self.samples = [(path, self._label(path, wnids)) for path in paths]
        return wnids

    def _label(self, path: str, wnids: list[str]) -> int:
        name = os.path.basename(path)
        if self.split == "test":
            return -1
        return wnids.index(self._rows[name][0] if self.split == "val" else name.partition("_")[0])

    def read_target(self, kind: str, path: str) -> torch.Tensor:
        return torch.tensor([float(side) for side in self._rows[os.path.basename(path)][-4:]])


@fake(
    "tiny_imagenet",
    Case(
        "TinyImageNetRecord",
        (
            {},
            *by("split", "val", "test"),
            {"target_type": "bbox"},
            {"split": "val", "target_type": ["bbox", "category"]},
        ),
        ({"split": "valid"}, {"target_type": "boxes"}, {"split": "test", "target_type": "bbox"}),
        SAMPLES,
        theirs=PlainTinyImageNet,
    ),
)
def tiny_imagenet(rng: Generator) -> Files:
    """Class folders with boxes, one folder to validate, one without labels; grey images."""
    files: Files = {f"{_TINY}/wnids.txt": "\n".join(_WNIDS).encode()}
    others = {"n00001740": "entity", **_WORDS, "n15300051": "Walpurgis Night"}
    files[f"{_TINY}/words.txt"] = text(f"{wnid}\t{words}" for wnid, words in others.items())

    def image(number: int) -> bytes:
        made = birds.picture(rng, 64, 64)
        return encoded(made.convert("L"), "JPEG") if number % 5 == 2 else jpeg(made)

    def box() -> str:
        left, top = (int(side) for side in rng.integers(0, 30, 2))
        return f"{left}\t{top}\t{left + 30}\t{top + 25}"

    lines = []
    for number in (10, 2, 0, 9, 1, *range(11, 6 + scaled(5))):
        files[f"{_TINY}/test/images/test_{number}.JPEG"] = image(number)
        files[f"{_TINY}/val/images/val_{number}.JPEG"] = image(number)
        lines.append(f"val_{number}.JPEG\t{_WNIDS[number % 3]}\t{box()}")
    files[f"{_TINY}/val/val_annotations.txt"] = text(lines)
    for wnid in _WNIDS:
        names = [f"{wnid}_{number}.JPEG" for number in (0, 10, 2, *range(11, 8 + scaled(3)))]
        files |= {f"{_TINY}/train/{wnid}/images/{name}": image(place) for place, name in enumerate(names)}
        files[f"{_TINY}/train/{wnid}/{wnid}_boxes.txt"] = text(f"{name}\t{box()}" for name in names)
    return {f"{_TINY}.zip": zipped(files)}
