"""Directories of images with COCO JSON, YOLO labels or masks → one record set with splits."""

import contextlib
import io
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from torch.utils.data import DataLoader
from torchvision.datasets import VOCDetection
from torchvision.transforms import v2

import recordzoo
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, PrepareError, SourceError
from recordzoo.images.decode import open_picture
from recordzoo.records.manifest import BoxFormat, FieldKind, FieldSpec
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from tests.fakes import annotated as fake
from tests.fakes.annotated import YAML, coco_document, write_coco, write_images, write_json, write_masks, write_yolo
from tests.preparing import prepared
from tests.running import run

ROBOFLOW = "train: ../train/images\nval: ../val/images\ntest: ../test/images\nnames: [a, '1', no]\n"
DOG = "1 .5 .5 .1 .1"
"""A box in a label file."""
FLOW = "path: .\ntrain: [images/train]\nval: images/val\nnames: {2: c, 0: a, 1: b}"


def read(root: Path, **options: Any) -> RecordReader:
    """Prepare a directory; the set lies beside it."""
    reader = RecordReader(prepared(root, workers=1, **options))
    assert reader.path == root.with_name(f"{root.name}.records")
    return reader


def split(reader: RecordReader, name: str) -> list[str]:
    return [reader.names[position] for position in reader.array(f"split-{name}")]


def text(path: Path, data: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)


def tree(root: Path, files: Sequence[str]) -> None:
    """Write a file for each of "1.txt=content", "1.jpg", "1.png|L"."""
    for each in files:
        name, _, content = each.partition("=")
        name, _, mode = name.partition("|")
        text(root / name, content)
        if name.endswith((".jpg", ".png", ".gif")):
            Image.new(mode or "RGB", (8, 6), 3 if mode else "red").save(root / name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a directory for the test to fill; its record set lies beside it."""
    return tmp_path / "ours"


# Any: JSON.
def of_annotation(**values: Any) -> Callable[[Any], Any]:
    """Change the first annotation of a document."""
    return lambda document: document["annotations"][0].update(values)


def of_image(**values: Any) -> Callable[[Any], Any]:
    """Change the first image of a document."""
    return lambda document: document["images"][0].update(values)


class TestCoco:
    def test_it_holds_what_pycocotools_reads(self, root: Path) -> None:
        write_coco(root)
        reader = read(root)
        assert reader.manifest.splits == {"train": 9, "val": 5}
        assert reader.manifest.fields == {
            "image": FieldSpec(FieldKind.IMAGE),
            "boxes": FieldSpec(FieldKind.BOXES, box_format=BoxFormat.XYWH),
            "labels": FieldSpec(FieldKind.CLASS, ("person", "car", "dog")),
            "annotations": FieldSpec(FieldKind.JSON),
            "image_id": FieldSpec(FieldKind.INT),
        }
        ids = reader.manifest.metadata["category_ids"]
        assert ids == [1, 3, 18]
        for part in ("train", "val"):
            with contextlib.redirect_stdout(io.StringIO()):
                coco = COCO(root / f"annotations/instances_{part}2017.json")
            positions = reader.array(f"split-{part}").tolist()
            assert reader.array("image_id")[positions].tolist() == sorted(coco.imgs)
            for position, number in zip(positions, sorted(coco.imgs), strict=True):
                name = f"{part}2017/{coco.imgs[number]['file_name']}"
                assert reader.names[position] == name
                assert reader.read("image", position) == (root / name).read_bytes()
                objects = coco.loadAnns(coco.getAnnIds(number))
                assert reader.value("annotations", position) == objects
                boxes, labels = reader.value("boxes", position), reader.value("labels", position)
                assert (boxes.dtype, labels.dtype, boxes.shape) == (np.float32, np.int64, (len(objects), 4))
                assert boxes.tolist() == [[float(np.float32(x)) for x in each["bbox"]] for each in objects]
                assert [ids[label] for label in labels] == [each["category_id"] for each in objects]
        assert verify(reader.path, full=True).ok

    @pytest.mark.parametrize(
        ("files", "images", "splits"),
        [
            (["annotations/instances_train2017.json"], "images/train2017/", ["train"]),
            (["train/_annotations.coco.json", "valid/_annotations.coco.json"], "{}/", ["train", "valid"]),
            (["result.json"], "images/", []),
        ],
    )
    def test_layouts(self, files: list[str], images: str, splits: list[str], root: Path) -> None:
        for number, name in enumerate(files):
            document = coco_document(10 * number + 1, 4)
            write_json(root / name, document)
            folder = images.format(*splits[number:])
            write_images(root, [folder + each["file_name"] for each in document["images"]], (80, 60))
        reader = read(root)
        assert list(reader.manifest.splits) == splits
        assert reader.names[3] == f"{images.format(*splits)}000000000004.jpg"

    @pytest.mark.parametrize(
        ("file", "folder"),
        [
            ("labels.json", "data/"),  # fiftyone
            ("annotations/birds_train.json", "deep/er/"),
            ("train/_annotations.coco.json", "train/"),  # Roboflow
            ("annotations/instances_default.json", "images/default/"),  # CVAT
        ],
    )
    @pytest.mark.parametrize(
        "change",
        [
            lambda d: {"version": "1.0", **d},
            lambda d: json.loads(re.sub(r'("(image_|category_)?id": \d+)', r"\1.0", json.dumps(d))),
            lambda d: json.loads(re.sub(r'("(image_|category_)?id": )(\d+)', r'\1"a\3"', json.dumps(d))),
            lambda d: {key: value for key, value in d.items() if key != "annotations"},
            lambda d: {**d, "images": [{**each, "file_name": f"x\\{each['file_name']}"} for each in d["images"]]},
        ],
        ids=["version first", "ids as floats", "ids as texts", "no annotations", "backslashes"],
    )
    def test_files_of_tools(self, change: Callable[[Any], Any], file: str, folder: str, root: Path) -> None:
        """pycocotools has the same objects; its ids are equal, too."""
        document = change(coco_document(1, 4))
        write_json(root / file, document)
        names = [folder + each["file_name"].replace("\\", "/") for each in document["images"]]
        write_images(root, names, (80, 60))
        reader = read(root)
        theirs = COCO()
        theirs.dataset = {"annotations": [], **document}
        theirs.createIndex()
        assert sorted(reader.names) == sorted(names)
        for position, number in enumerate(sorted(theirs.imgs)):
            assert reader.value("annotations", position) == theirs.imgToAnns[number]
            assert len(reader.value("boxes", position)) == len(theirs.imgToAnns[number])
            if "image_id" in reader.manifest.fields:
                assert reader.value("image_id", position) == number
        assert reader.manifest.metadata["category_ids"] == sorted(theirs.cats)

    @pytest.mark.parametrize(
        "shape",
        [None, [[]], [[5, 5, 25, 15]], [[5, 5, 25, 15], [1, 1, 9, 1, 9, 9]], {"counts": [4800], "size": [60, 80]}],
    )
    @pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools
    def test_outlines_that_draw_little(self, shape: Any, root: Path) -> None:
        """Fewer than three corners draw nothing; pycocotools takes four numbers for a box, or raises."""
        document = coco_document(1, 2)
        document["annotations"][0]["segmentation"] = shape
        write_json(root / "a.json", document)
        for each in document["images"]:
            fake.noise(each["id"], 60, 80, 3).save(root / each["file_name"])
        dataset = recordzoo.open(read(root).path, transforms=lambda *x: x, target_type=["masks"])
        number = document["annotations"][0]["image_id"] - 1
        drawn = {mask.sum().item() for mask in dataset[number][1]["masks"]}
        theirs = coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects([[1, 1, 9, 1, 9, 9]], 60, 80))).sum()
        assert (theirs if isinstance(shape, list) and len(shape) == 2 else 0) in drawn

    @pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools
    def test_run_lengths(self, root: Path) -> None:
        """Compressed by pycocotools; their size is compared with the image's, which the file need not state."""
        rng, write = np.random.default_rng(0), root / "a.json"
        masks = [(rng.random((60, 80)) < share).astype(np.uint8) for share in (0, 0.01, 0.3, 0.9, 1)]
        shapes = [coco_mask.encode(np.asfortranarray(mask)) for mask in masks]
        document = {"images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 1, "name": "a"}]}
        document["annotations"] = [
            {"id": n, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9]}
            | {"segmentation": {"size": shape["size"], "counts": shape["counts"].decode()}}
            for n, shape in enumerate(shapes)
        ]
        write_json(write, document)
        fake.noise(1, 60, 80, 3).save(root / "1.jpg")
        dataset = recordzoo.open(read(root).path, transforms=lambda *x: x, target_type=["masks"])
        assert np.array_equal(dataset[0][1]["masks"], masks)
        fake.noise(1, 30, 40, 3).save(root / "1.jpg")
        with pytest.raises(SourceError, match=r"1\.jpg is 40x30, and its annotations are of 80x60"):
            read(root, refresh=True)

    def test_an_image_in_several_folders(self, root: Path) -> None:
        write_json(root / "a.json", document := coco_document(1, 2))
        names = [each["file_name"] for each in document["images"]]
        write_images(root, [f"{folder}/{name}" for folder in "xy" for name in names])
        with pytest.raises(SourceError, match=rf"{names[0]} is in several folders: x/{names[0]}, y/{names[0]}"):
            read(root)

    def test_files_of_other_tasks_are_not_read(self, root: Path) -> None:
        document = write_coco(root)["val2017"]
        shutil.copy(root / "annotations/instances_val2017.json", root / "annotations/person_keypoints_val2017.json")
        shutil.copy(root / "annotations/instances_val2017.json", root / "annotations/mine.json")
        assert len(read(root)) == 14
        document["categories"][0]["name"] = "cat"
        write_json(root / "annotations/instances_val2017.json", document)
        with pytest.raises(SourceError, match="category 18 is 'cat', and 'dog' in another file"):
            read(root, refresh=True)

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (of_image(file_name="../x.jpg"), "'../x.jpg' is no path in the directory"),
            (of_image(file_name="\ud800"), "is no path in the directory"),
            (of_image(id="1"), "ids of its images are numbers and texts: 1, "),
            (of_image(id=1 << 64), "an image without a whole number or a text as id"),
            (lambda d: d["images"][0].pop("file_name"), "without file_name"),
            (lambda d: d["images"].append({**d["images"][0], "id": 77}), "is listed twice.*--annotations FILE"),
            (lambda d: d["images"][0].update(id=d["images"][1]["id"]), "two images have the id"),
            (of_annotation(category_id=5), "categories that it does not list: 5"),
            (of_annotation(image_id=555), "annotations of 1 image that it does not list: 555"),
            (of_annotation(bbox=[1, 2, 3]), r"bbox is \[1, 2, 3\], not four numbers"),
            (of_annotation(bbox=[1, 2, 3, 1e300]), "not four numbers"),
            (of_annotation(segmentation=[1, 2, 3, 4, 5, 6]), "segmentation has 1, which is no pol"),
            (of_annotation(segmentation=[[1, 2, 3, "4"]]), "which is no polygon"),
            (of_annotation(segmentation=[[[1, 2], [3, 4]]]), "which is no polygon"),
            (of_annotation(segmentation={"counts": [5]}), "its run lengths have no size"),
            (of_annotation(segmentation={"counts": [5], "size": [2, 3]}), "of that size"),
            (of_annotation(segmentation={"counts": "PPYo0", "size": [60, 80]}), "of that size"),
            (of_annotation(segmentation={"counts": "!!", "size": [60, 80]}), "of that size"),
            (of_annotation(segmentation={"counts": [600], "size": [20, 30]}), "are of 30x20, the image is 80x60"),
            (
                lambda d: d["annotations"].extend(
                    {**d["annotations"][0], "segmentation": {"counts": [n], "size": [1, n]}} for n in (6, 7)
                ),
                "has run lengths of two sizes",
            ),
            (of_annotation(area=float("nan")), 'NaN is not a number of JSON: {"id"'),
            (lambda d: d["categories"].append({"id": 3, "name": "bus"}), "two categories have the id 3"),
            (lambda d: d["categories"][0].pop("name"), "a category without"),
            (lambda d: d["categories"][0].update(id="x"), "ids of its categories are numbers and texts: x, "),
            (lambda d: d.pop("images"), "it has no list 'images'"),
            (lambda d: d["annotations"].append(3), "annotations has '3"),
            (lambda d: d.update(images={}), "it cannot be read as JSON"),
        ],
    )
    def test_faults(self, change: Callable[[Any], Any], problem: str, root: Path, tmp_path: Path) -> None:
        write_coco(root)
        path = root / "annotations/instances_train2017.json"
        document = json.loads(path.read_bytes())
        change(document)
        write_json(path, document)
        with pytest.raises(SourceError, match=problem) as caught:
            read(root)
        assert "instances_train2017.json" in str(caught.value) or "listed twice" in problem
        assert not (tmp_path / "ours.records").exists()

    @pytest.mark.parametrize("end", ["", "]", "[1,"])
    def test_a_file_that_is_cut(self, end: str, root: Path) -> None:
        write_coco(root)
        path = root / "annotations/instances_train2017.json"
        path.write_text(path.read_text()[: -len('], "categories": []}')] + end)
        with pytest.raises(SourceError, match="it cannot be read as JSON"):
            read(root)

    def test_missing_images_are_one_error_or_left_out(self, root: Path) -> None:
        write_coco(root)
        names = ["train2017/000000000002.jpg", "val2017/000000000101.jpg"]
        for name in names:
            (root / name).unlink()
        with pytest.raises(NotPreparedError, match="2 of the") as caught:
            read(root)
        assert all(name in str(caught.value) for name in names)
        assert "instances_val2017.json says so; images were looked for in every folder of" in str(caught.value)
        write_images(root, ["val2017/more.jpg"])
        assert (
            "no JSON lists them: 1 image: val2017/more.jpg" in run("prepare", root, "--on-error=skip", cwd=root).stderr
        )
        reader, kept = read(root), [1, *range(3, 10), *range(102, 106)]
        assert reader.manifest.splits == {"train": 8, "val": 4}
        assert sorted(reader.manifest.skipped) == names
        assert reader.array("image_id").tolist() == kept
        assert [len(reader.value("boxes", n)) for n in range(12)] == [n % 4 for n in kept]


class TestYolo:
    @pytest.mark.parametrize(
        ("pattern", "yaml", "classes"),
        [
            ("{kind}/{split}", YAML, ("person", "no", "dog")),
            ("{kind}/{split}", None, ("0", "1", "2")),
            ("{split}/{kind}", None, ("0", "1", "2")),
            ("{split}/{kind}", ROBOFLOW, ("a", "1", "no")),
            ("{kind}/{split}", FLOW, ("a", "b", "c")),
        ],
    )
    def test_layouts(self, pattern: str, yaml: str | None, classes: tuple[str, ...] | None, root: Path) -> None:
        write_yolo(root, pattern, yaml)
        reader = read(root)
        assert dict(reader.manifest.fields) == {
            "image": FieldSpec(FieldKind.IMAGE),
            "boxes": FieldSpec(FieldKind.BOXES, None, BoxFormat.CXCYWH, True),
            "labels": FieldSpec(FieldKind.CLASS, classes),
        }
        assert reader.manifest.splits == {"train": 5, "val": 5}
        for part in ("train", "val"):
            assert split(reader, part) == [f"{pattern.format(kind='images', split=part)}/{n}.jpg" for n in range(5)]
        position = int(reader.array("split-val")[1])
        expected = np.array([[0.5, 0.25, 0.25, 0.1], [0.5, 0.25, 0.25, 0.2]], np.float32)
        assert reader.value("boxes", position).tolist() == expected.tolist()
        assert reader.value("labels", position).tolist() == [0, 1]
        for number in (3, 4):  # an empty label file, and none
            position = int(reader.array("split-val")[number])
            boxes, labels = reader.value("boxes", position), reader.value("labels", position)
            assert (boxes.shape, boxes.dtype, labels.shape, labels.dtype) == ((0, 4), np.float32, (0,), np.int64)

    NAMES = "cat\ndog\n"
    TOOLS: Mapping[str, tuple[Sequence[str], Mapping[str, int], Sequence[str]]] = {
        "CVAT's YOLO 1.1": (  # its list has the folder of its own export
            (
                *("obj_train_data/1.jpg", f"obj_train_data/1.txt={DOG}", f"obj.names={NAMES}"),
                "train.txt=data/obj_train_data/1.jpg",
            ),
            {"train": 1},
            ("cat", "dog"),
        ),
        "Roboflow's darknet": (  # unpacked by macOS
            ("train/1.jpg", f"train/1.txt={DOG}", f"train/_darknet.labels={NAMES}", "train/._1.jpg", "train/._1.txt=x"),
            {"train": 1},
            ("cat", "dog"),
        ),
        "labelImg, darknet": (("1.jpg", "2.jpg", f"1.txt={DOG}", f"classes.txt={NAMES}"), {}, ("cat", "dog")),
        "in folders": (("images/a/b.jpg", f"labels/a/b.txt={DOG}", f"labels/classes.txt={NAMES}"), {}, ("cat", "dog")),
        "without names": (("data/1.jpg", f"data/1.txt={DOG}"), {}, ("0", "1")),
        "Roboflow": (  # and what ultralytics reads as "no split" and as classes without names
            (
                *("train/images/1.jpg", f"train/labels/1.txt={DOG}"),
                "data.yaml=train: /content/birds-1/train/images\nval: null\ntest: ~\nnc: 3",
            ),
            {"train": 1},
            ("0", "1", "2"),
        ),
    }

    @pytest.mark.parametrize("tool", TOOLS)
    def test_layouts_of_tools(self, tool: str, root: Path) -> None:
        files, splits, classes = self.TOOLS[tool]
        tree(root, files)
        reader = read(root)
        assert (reader.manifest.splits, reader.manifest.classes) == (splits, classes)
        assert reader.value("labels", 0).tolist() == [1]
        assert reader.read("image", 0) == (root / files[0]).read_bytes()

    def test_lists_of_images(self, root: Path) -> None:
        write_yolo(root, yaml="train: train.txt\nval: val.txt\nnames: [a, b, c]")
        text(root / "train.txt", "./images/train/3.jpg\n./images/val/1.jpg\n")
        text(root / "val.txt", "")
        reader = read(root)
        assert reader.manifest.splits == {"train": 2, "val": 0}
        assert split(reader, "train") == ["images/train/3.jpg", "images/val/1.jpg"]
        assert len(reader) == 10
        assert len(recordzoo.open(reader.path, split="val")) == 0

    def test_polygons(self, root: Path) -> None:
        """Boxes are around them; the polygons are kept as COCO has them, in fractions."""
        write_yolo(root)
        text(root / "labels/train/1.txt", "2 0.1 0.2 0.5 0.3 0.4 0.8\n0 0.5 0.5 0.2 0.2\n")
        reader = read(root)
        assert reader.manifest.fields["annotations"] == FieldSpec(FieldKind.JSON, is_normalized=True)
        assert np.abs(reader.value("boxes", 1) - [[0.3, 0.5, 0.4, 0.6], [0.5, 0.5, 0.2, 0.2]]).max() < 1e-7
        assert reader.value("annotations", 1) == [
            {"category_id": 2, "segmentation": [[0.1, 0.2, 0.5, 0.3, 0.4, 0.8]]},
            {"category_id": 0, "segmentation": []},
        ]
        assert reader.value("annotations", 4) == []
        assert "key points" not in run("prepare", root, "--refresh", cwd=root.parent).stderr
        text(root / "labels/train/1.txt", "0 .5 .5 .2 .4 .45 .4 0 0 .6 .7")
        assert "could be boxes with key points" in run("prepare", root, "--refresh", cwd=root.parent).stderr

    @pytest.mark.parametrize(
        ("name", "data", "problem"),
        [
            ("labels/train/1.txt", "0 .5 .5 .1\n", "labels/train/1.txt, line 1: 4 numbers"),
            ("labels/train/1.txt", "\n0 .5 x .1 .1\n", "line 2: could not convert"),
            ("labels/train/1.txt", "0 .5 nan .1 .1\n", "a number is not finite"),
            ("labels/train/1.txt", "3 .5 .5 .1 .1\n", "class 3 of 3 classes"),
            ("labels/train/1.txt", "0 50 50 10 10\n", "a coordinate is not between 0 and 1"),
            ("labels/train/77.txt", "", "no image for 1 file: labels/train/77.txt"),
            ("images/train/1.png", "", "images/train/1.jpg and images/train/1.png have one stem"),
            ("data.yaml", YAML.replace("nc: 3", "nc: 4"), "nc is 4, and there are 3 names"),
            ("data.yaml", YAML.replace("2: dog", "4: dog"), "names has the keys 0, 1, 4, not 0 to 2"),
            ("data.yaml", "names: {a: [", "it cannot be read as YAML"),
            ("data.yaml", "- names", "it is no mapping"),
            ("data.yaml", "train: images/train\nval: images/val\n", "names is no list"),
            ("data.yaml", YAML + "kpt_shape: [17, 3]\n", "key points"),
            ("data.yaml", YAML.replace("images/val", "../../elsewhere"), "val is '../../elsewhere', which is not in"),
            ("data.yaml", YAML.replace("images/val", "list.txt"), "list.txt lists 1 missing image: gone"),
        ],
    )
    def test_faults(self, name: str, data: str, problem: str, root: Path) -> None:
        write_yolo(root)
        text(root / "list.txt", "./images/val/1.jpg\ngone.jpg\n")
        text(root / name, data)
        with pytest.raises(SourceError, match=problem):
            read(root)

    def test_all_faults_are_named_at_once(self, root: Path) -> None:
        write_yolo(root)
        for number in range(3):
            text(root / f"labels/val/{number}.txt", "0 1 2\n" * 10)
        with pytest.raises(SourceError, match=r"labels/val/1\.txt, line 10: 3 numbers.*and 10 more") as caught:
            read(root)
        assert len(caught.value.details["problems"]) == 30

    def test_without_pyyaml(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write_yolo(root)
        monkeypatch.setattr("recordzoo.base.settings.is_installed", lambda package: package != "yaml")
        with pytest.raises(PrepareError, match=r"pip install 'recordzoo\[formats\]'"):
            read(root)


class TestVoc:
    XML = (
        "<annotation><folder>x</folder><filename>1.jpg</filename><size><width>8</width><height>6</height></size>"
        "<object><name>dog</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2.5</ymin><xmax>7</xmax>"
        "<ymax>5</ymax></bndbox></object><object><bndbox><ymin>1</ymin><xmin>2</xmin><xmax>3</xmax><ymax>4</ymax>"
        "</bndbox><name>cat</name></object></annotation>"
    )

    @pytest.mark.parametrize(
        ("image", "label", "splits"),
        [
            ("1.jpg", "1.xml", {}),  # labelImg
            ("JPEGImages/1.jpg", "Annotations/1.xml", {"train": 1}),  # VOC, CVAT
            ("train/1.jpg", "train/1.xml", {"train": 1}),  # Roboflow
            ("images/1.jpg", "labels_my-project_2024-01-01/1.xml", {}),  # makesense
        ],
    )
    def test_layouts(self, image: str, label: str, splits: Mapping[str, int], root: Path) -> None:
        """What torchvision's VOCDetection parses, as numbers."""
        tree(root, (image, f"{label}={self.XML}", *(["ImageSets/Main/train.txt=1"] if "JPEG" in image else [])))
        theirs: Any = VOCDetection.parse_voc_xml(ElementTree.fromstring(self.XML))
        reader = read(root)
        assert (reader.manifest.splits, reader.manifest.classes) == (splits, ("cat", "dog"))
        assert [reader.manifest.classes[each] for each in reader.value("labels", 0)] == ["dog", "cat"]
        boxes = [each["bndbox"] for each in theirs["annotation"]["object"]]
        wanted = [[float(box[key]) for key in ("xmin", "ymin", "xmax", "ymax")] for box in boxes]
        assert reader.value("boxes", 0).tolist() == wanted
        assert reader.value("annotations", 0) == [{"name": "dog", "difficult": "1"}, {"name": "cat"}]
        assert recordzoo.open(reader.path, transforms=lambda *pair: pair)[0][1]["boxes"].tolist() == wanted

    def test_files_without_the_other(self, root: Path) -> None:
        tree(root, ("1.jpg", f"1.xml={self.XML}", "2.jpg"))
        assert len(read(root).value("boxes", 1)) == 0
        tree(root, ("ImageSets/Main/val.txt=2\n3",))
        with pytest.raises(SourceError, match=r"ImageSets/Main/val\.txt lists 1 missing image: 3"):
            read(root, refresh=True)


class TestTexts:
    """Small text files as editors write them, and files that are none: one reader for all."""

    FILES: Mapping[str, tuple[str, str]] = {
        "classes.txt": ("yolo", "cat\r\ndog\x85\u2028s\r\n\r\n"),  # str.splitlines cuts at both, editors do not
        "labels/1.txt": ("yolo", "1 .5 .5 .1 .1\r"),
        "data.yaml": ("yolo", "names: [cat, dog]\r\ntrain: images\r\n"),
        "a.json": ("coco", '{"images": [{"id": 1, "file_name": "1.jpg"}], "annotations": [], "categories": []}'),
    }

    @pytest.mark.parametrize("name", FILES)
    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            (lambda text: text.encode("utf-8-sig"), ""),
            (lambda text: text.encode("utf-16"), "{}, line 1: the file is UTF-16."),
            (lambda text: text.encode() + b"\n\xe9\n", "byte 1 (0xe9) is not UTF-8."),
        ],
        ids=["BOM", "UTF-16", "Latin-1"],
    )
    def test_encodings(self, change: Callable[[str], bytes], problem: str, name: str, root: Path) -> None:
        form, data = self.FILES[name]
        tree(root, ("images/1.jpg", f"labels/1.txt={DOG}"))
        (root / name).write_bytes(change(data))
        if problem:
            with pytest.raises(SourceError, match=re.escape(problem.format(name))):
                read(root, from_=form)
            return
        reader = read(root, from_=form)
        assert name != "data.yaml" or reader.manifest.splits == {"train": 1}
        assert name != "classes.txt" or reader.manifest.classes == ("cat", "dog\x85\u2028s")


class TestMasks:
    def test_masks(self, root: Path) -> None:
        write_masks(root)
        reader = read(root)
        assert dict(reader.manifest.fields) == {"image": FieldSpec(FieldKind.IMAGE), "mask": FieldSpec(FieldKind.MASKS)}
        assert (reader.manifest.default_target, reader.manifest.splits) == ("mask", {"train": 4})
        for number in range(4):
            assert reader.names[number] == f"images/train/{number}.jpg"
            assert reader.read("image", number) == (root / f"images/train/{number}.jpg").read_bytes()
            assert reader.read("mask", number) == (root / f"masks/train/{number}.png").read_bytes()

    @pytest.mark.parametrize(
        ("image", "mask"),
        [
            ("imgs/1.jpg", "masks/1_mask.png|L"),
            ("images/1.jpg", "labels/1.jpg.png|P"),
            ("JPEGImages/1.jpg", "SegmentationClass/1.png|P"),
            ("img_dir/train/1.jpg", "ann_dir/train/1.png|L"),
            ("train/1.jpg", "train/1_mask.png|L"),
            ("train/1.jpg", "train_masks/1_mask.gif|L"),  # Carvana
        ],
    )
    def test_layouts(self, image: str, mask: str, root: Path) -> None:
        tree(root, (image, mask, f"{image.rpartition('/')[0]}/.ipynb_checkpoints/1.jpg"))
        reader, mask = read(root), mask.partition("|")[0]
        assert (list(reader.names), reader.manifest.splits) == ([image], {"train": 1} if "train" in image else {})
        assert reader.read("image", 0) == (root / image).read_bytes()
        assert reader.read("mask", 0) == (root / mask).read_bytes()
        with Image.open(root / mask) as theirs:
            _, ours = recordzoo.open(reader.path, transforms=lambda *pair: pair)[0]
            assert np.array_equal(ours, theirs)
        (root / image).unlink()
        (root / image).symlink_to("nowhere")
        with pytest.raises(NotPreparedError, match="1 of the 2 files that it names cannot be read"):
            read(root, refresh=True)


BOX = "0 .5 .5 .1 .1"
YOLO = ("images/1.jpg", f"labels/1.txt={BOX}")


@pytest.mark.parametrize(
    ("form", "files", "problem"),
    [
        *((form, ("cat/1.jpg",), "it has no ") for form in ("coco", "yolo", "voc", "masks")),
        ("yolo", (*YOLO, "labels/classes.txt=cat", "classes.txt=dog"), "has other classes than"),
        ("yolo", (*YOLO, "classes.txt=cat\n\ndog\n"), r"classes\.txt, line 2: it is empty, and names no class"),
        ("yolo", (*YOLO, f"labels/1.txt=0 .5 .5 .1 {'x' * 9999}"), r"x{100}\.\.\.x{100,}'[^x]*To read its folders"),
        ("yolo", (*YOLO, f"data.yaml=names: [{'x' * 9999}]\nnc: {'9' * 9999}"), "nc is 999"),
        ("yolo", (*YOLO, "data.yaml=nc: 99999999999"), "nc is 99999999999, and 100,000 classes are the most"),
        ("yolo", (*YOLO, "labels/1.txt=2000000000 .5 .5 .1 .1"), "class 2000000000 of at most 100,000 classes"),
        ("yolo", (*YOLO, f"labels/1.txt={'0' * (1 + (64 << 20))}"), r"cannot be read \(more than 67,108,864 bytes\)"),
        ("voc", ("1.jpg", f"1.xml={TestVoc.XML}", f"3.xml={TestVoc.XML}"), r"no image for 1 file: 3\.xml"),
        *(
            (
                "voc",
                ("a/1.jpg", f"a/1.xml={TestVoc.XML.replace(old, new)}", "a/2.jpg"),
                rf"a/1\.xml cannot be read \({said}",
            )
            for old, new, said in (
                ("</annotation>", "", "no element found"),
                ("<name>cat</name>", "", "an object has no name"),
                ("<ymax>5</ymax>", "", "the box of an object 'dog' is"),
                ("bndbox>", "polygon>", "an object 'dog' has no bndbox"),
                ("<xmax>7</xmax>", "<xmax>x</xmax>", "could not convert string to float: 'x'"),
                ("<xmax>7</xmax>", "<xmax>nan</xmax>", "the box of an object 'dog' is"),
                ("<annotation>", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>", "it has a DOCTYPE"),
                ("annotation>", "annotations>", "it begins with <annotations>"),
            )
        ),
        ("masks", ("images/1.jpg", "images/2.jpg", "masks/1.png|L"), r"no masks for 1 file: images/2\.jpg"),
        ("masks", ("images/1.jpg", "masks/1.png|L", "masks/2.png|L"), r"no image for 1 file: masks/2\.png"),
        ("masks", ("images/1.jpg", "masks/1.png|L", "masks/1.gif|L"), r"masks/1\.gif and masks/1\.png have one stem"),
    ],
)
def test_what_cannot_be_used(form: str, files: Sequence[str], problem: str, root: Path, tmp_path: Path) -> None:
    """It is detected as what it is; the error names the way to class folders, and long values are cut."""
    tree(root, files)
    with pytest.raises(SourceError, match=f"{problem}.* --from classes") as caught:
        read(root, from_=form)
    assert len(str(caught.value)) < 1000
    assert not (tmp_path / "ours.records").exists()


class TestHeaders:
    """Sizes and modes that would give other pixels, or the pixels of another place, without a word."""

    @staticmethod
    def photo(path: Path, size: tuple[int, int] = (80, 60), mode: str = "RGB", orientation: int = 1) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.new(mode, size).save(path, exif=exif)

    @pytest.mark.parametrize(
        ("size", "orientation", "problem"),
        [
            ((80, 61), 6, "1.jpg is 61x80, and its annotations are of 80x60"),
            ((60, 80), 6, ""),
            ((80, 60), 6, ""),  # its annotations are of the stored pixels
            ((80, 60), 3, ""),
        ],
    )
    @pytest.mark.parametrize("form", ["coco", "voc"])
    def test_stated_sizes(
        self, form: str, size: tuple[int, int], orientation: int, problem: str, root: Path, tmp_path: Path
    ) -> None:
        self.photo(root / "1.jpg", size, orientation=orientation)
        if form == "voc":
            text(root / "1.xml", TestVoc.XML.replace("<width>8", "<width>80").replace("<height>6", "<height>60"))
        else:
            image = {"id": 1, "file_name": "1.jpg", "width": 80.0, "height": 60}
            write_json(root / "a.json", coco_document(1, 1) | {"images": [image]})
        said = run("prepare", "ours", cwd=tmp_path).stderr
        if problem:
            assert problem in said
        elif (size, orientation) == ((80, 60), 6):
            assert "1 image with an EXIF orientation" in said
        else:
            assert "1 image turned by its EXIF orientation when it is read" in said

    def test_a_subset_and_a_merged_set_are_turned_as_well(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            self.photo(tmp_path / name / "1.jpg", orientation=6)
            tree(tmp_path / name, (f"1.txt={DOG}", "data.yaml=names: [cat, dog]"))
        sets = [prepared(tmp_path / name) for name in ("one", "two")]
        made = [recordzoo.subset(sets[0], output=tmp_path / "part.records", indices=[0])]
        made += [recordzoo.merge(sets, tmp_path / "both.records")]
        for path in (*sets, *made):
            assert {image.size for image, _ in recordzoo.open(path)} == {(60, 80)}

    @pytest.mark.parametrize(
        ("mask", "size", "mode", "said", "is_error"),
        [
            ("1.png", (80, 60), "RGB", "masks/1.png is of mode RGB; a mask has one channel or a palette", True),
            ("1.png", (80, 60), "LA", "masks/1.png is of mode LA", True),
            ("1.png", (60, 80), "L", "images/1.jpg is 80x60, and its mask masks/1.png is 60x80", True),
            ("1.png", (40, 30), "L", "1 mask of another size than the image, and of the same shape", False),
            ("1.jpg", (80, 60), "L", "1 mask as JPEG, whose values are not exactly those that were drawn", False),
            ("1.png", (80, 60), "1", "", False),
            ("1.png", (80, 60), "I;16", "", False),
        ],
    )
    def test_masks(
        self, mask: str, size: tuple[int, int], mode: str, said: str, is_error: bool, root: Path, tmp_path: Path
    ) -> None:
        self.photo(root / "images/1.jpg")
        self.photo(root / "masks" / mask, size, mode)
        done = run("prepare", "ours", cwd=tmp_path)
        assert done.returncode == (1 if is_error else 0)
        assert said in done.stderr
        assert is_error or "warning" in done.stderr or not said
        if not is_error:
            _, found = recordzoo.open(f"{root}.records", transforms=lambda *pair: pair)[0]
            assert found.shape == size[::-1]


class TestOrientation:
    """Photographs of phones: people annotate the upright picture, Pillow and torchvision read the pixels as stored."""

    @staticmethod
    def write(root: Path) -> None:
        rng = np.random.default_rng(0)
        for number in range(1, 9):
            path = root / f"images/{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            exif = Image.Exif()
            exif[0x0112] = number
            picture = Image.fromarray(rng.integers(0, 256, (3, 4, 3), np.uint8)).resize((64, 48))
            picture.save(path, exif=exif, quality=95)
            text(root / f"labels/{number}.txt", "0 .25 .5 .5 1")

    @pytest.mark.parametrize("exif", ["turn", "keep"])
    def test_samples_are_upright(self, exif: Any, root: Path) -> None:
        self.write(root)
        reader = read(root, exif=exif)
        dataset = recordzoo.open(reader.path)
        upright = []
        for number in range(8):
            path = root / f"images/{number + 1}.jpg"
            assert reader.read("image", number) == path.read_bytes()
            with Image.open(path) as image:
                upright.append((ImageOps.exif_transpose(image) if exif == "turn" else image).convert("RGB"))
            assert dataset[number][0].tobytes() == upright[-1].tobytes()
            assert dataset[number][0].size == upright[-1].size
        with pytest.raises(OtherSourceError, match="--refresh"):
            read(root, exif="keep" if exif == "turn" else "turn")
        with pytest.raises(ArgumentError, match=r"'left' for argument exif \(--exif\)"):
            read(root, exif="left")

    def test_loader_boxes_and_sheet_see_the_same(self, root: Path) -> None:
        self.write(root)
        path = read(root).path
        transforms = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.ToImage()])
        dataset = recordzoo.open(path, transforms=transforms)
        loaders = DataLoader(dataset, None), recordzoo.RecordLoader(dataset, None, num_workers=2)
        for (image, target), (ours, boxes) in zip(*loaders, strict=True):
            assert torch.equal(image, ours)
            assert torch.equal(target["boxes"], boxes["boxes"])
            height, width = image.shape[1:]
            assert target["boxes"].tolist() == [[width / 2, 0, width, height]]
        transform = v2.Compose([v2.Resize((32, 32)), v2.PILToTensor()])
        labels = recordzoo.open(path, transform=transform, target_type="labels")
        right = torch.stack([labels[number][0] for number in range(8)])
        assert torch.equal(torch.cat([images for images, _ in recordzoo.RecordLoader(labels, 3)]), right)
        assert open_picture(RecordReader(path), 5).size == (48, 64)

    def test_masks_of_upright_pictures(self, root: Path) -> None:
        self.write(root)
        shutil.rmtree(root / "labels")
        for number in range(1, 9):
            (root / "masks").mkdir(exist_ok=True)
            Image.new("L", (64, 48) if number < 5 else (48, 64)).save(root / f"masks/{number}.png")
        dataset = recordzoo.open(read(root).path, transforms=v2.Compose([v2.ToImage()]))
        for number in range(8):
            image, mask = dataset[number]
            assert image.shape[1:] == mask.shape == ((48, 64) if number < 4 else (64, 48))


class TestChosen:
    def test_one_file_of_several(self, root: Path, tmp_path: Path) -> None:
        write_coco(root)
        name = "annotations/instances_val2017.json"
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(root / name)
        reader = read(root, annotations=name)
        assert reader.array("image_id").tolist() == sorted(coco.imgs)
        assert reader.manifest.splits == {"val": len(coco.imgs)}
        with pytest.raises(OtherSourceError, match="--refresh"):
            read(root)
        done = run("prepare", "ours", "--annotations", f"ours/{name}", cwd=tmp_path)
        assert (done.returncode, "made in" in done.stderr) == (0, False)

    def test_what_it_is_not_for(self, root: Path, tmp_path: Path) -> None:
        write_coco(root)
        with pytest.raises(NotPreparedError, match=r"There is no file x\.json in .*ours \(--annotations"):
            read(root, annotations="x.json")
        text(tmp_path / "list.csv", "path,label")
        with pytest.raises(ArgumentError, match=r"annotations \(--annotations\) is for images with COCO JSON"):
            prepared(tmp_path / "list.csv", annotations="x.json")


class TestRecognition:
    def test_from_classes_reads_folders(self, root: Path) -> None:
        write_masks(root)
        assert read(root, from_="classes").manifest.classes == ("images", "masks")
        with pytest.raises(OtherSourceError, match="holds images in classes, not images with annotations"):
            read(root)

    def test_another_format_of_the_same_directory(self, root: Path, tmp_path: Path) -> None:
        write_masks(root)
        text(root / "labels/train/1.txt", "0 .5 .5 .1 .1")
        assert read(root).manifest.metadata["annotations"] == "yolo"
        assert "also be read as masks: --from masks" in run("prepare", "ours", "--refresh", cwd=tmp_path).stderr
        with pytest.raises(OtherSourceError, match="--refresh"):
            read(root, from_="masks")
        assert read(root, from_="masks", refresh=True).manifest.default_target == "mask"


class TestSets:
    def test_command_line(self, root: Path, tmp_path: Path) -> None:
        write_coco(root)
        assert "ours.records" in run("prepare", "ours", "--dry-run", cwd=tmp_path).stdout
        assert not (tmp_path / "ours.records").exists()
        made = run("prepare", "ours", "--json", cwd=tmp_path)
        assert "ours: coco annotations, 14 images, 20 boxes (XYWH), 3 classes; splits: train (9), val" in made.stderr
        assert json.loads(made.stdout)["record_sets"][0]["read_as"] == "coco"
        assert "images with annotations" in run("info", "ours", cwd=tmp_path).stdout

    def test_a_refreshed_set_has_the_same_bytes(self, root: Path) -> None:
        write_yolo(root)
        before = (read(root).folder / "manifest.json").read_bytes()
        assert (read(root, refresh=True, num_shards=None).folder / "manifest.json").read_bytes() == before

    def test_changed_files(self, root: Path, tmp_path: Path) -> None:
        write_yolo(root)
        read(root)
        (root / "labels/val/2.txt").unlink()
        text(root / "labels/val/3.txt", "0 .5 .5 .1 .1")
        write_images(root, ["images/val/9.jpg"])
        said = run("prepare", "ours", cwd=tmp_path).stderr
        assert all(words in said for words in ("9.jpg is new", "labels/val/2.txt is gone", "--from yolo --refresh"))
        reader = read(root, refresh="if-changed")
        assert len(reader) == 11
        assert len(reader.value("boxes", 8)) == 1

    def test_no_variant_of_boxes_in_pixels(self, root: Path) -> None:
        write_coco(root)
        with pytest.raises(recordzoo.errors.ArgumentError, match="There are no variants of ours"):
            read(root, variant="32")
