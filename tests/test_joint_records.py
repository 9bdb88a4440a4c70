"""`transforms=` on any record set with boxes or masks: the samples of torchvision's wrapped classes."""

import contextlib
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import tv_tensors
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

import recordzoo
from recordzoo import RecordLoader, RecordReader, RecordWriter
from recordzoo.errors import ArgumentError, CorruptRecordError, PrepareError
from recordzoo.images.decode import find_objects
from recordzoo.loader.source import Source
from recordzoo.records.manifest import BoxFormat, FieldKind, FieldSpec
from tests.batching import assert_same
from tests.fakes.pictures import jpeg

# Any, here and below: samples and targets of all kinds.
pytestmark = pytest.mark.usefixtures("threads")

KINDS: Any = {"boxes": "raw", "labels": "raw", "masks": "raw", "mask": "picture"}
CATEGORIES = [{"id": 2 * i + 1, "name": name} for i, name in enumerate(["bird", "cat", "cow", "dog"])]
SIZES = [(64, 48), (50, 70), (40, 40), (33, 57), (80, 60)]
CHAINS = {
    "geometry": [v2.Resize((50, 60)), v2.CenterCrop(40), v2.RandomHorizontalFlip(1), v2.ToImage()],
    "dropping": [v2.ToImage(), v2.RandomCrop(24, pad_if_needed=True), v2.SanitizeBoundingBoxes(), v2.ToPureTensor()],
    "turned": [v2.Resize((50, 60)), v2.RandomRotation((20, 20)), v2.SanitizeBoundingBoxes(), v2.ToImage()],
    "nothing": [v2.Identity()],
}


def picture(seed: int, width: int, height: int) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 255, (5, 5, 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def _polygon(box: NDArray[np.float32]) -> list[float]:
    x, y, w, h = map(float, box)
    return [x, y, x + w, y, x + w, y + h]


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five images with 0 to 4 objects: polygons in several parts, run lengths, boxes that leave the image."""
    root, rng = tmp_path_factory.mktemp("coco"), np.random.default_rng(1)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, (width, height) in enumerate(SIZES):
        (root / f"{number}.jpg").write_bytes(jpeg(picture(number, width, height)))
        images.append({"id": number + 7, "file_name": f"{number}.jpg", "width": width, "height": height})
        for i, box in enumerate(rng.uniform(-5, 40, (number, 4)).astype(np.float32)):
            found = {"id": 10 * number + i + 1, "image_id": number + 7, "category_id": 2 * i + 1, "area": 1}
            segment: Any = [_polygon(box), _polygon(box + 1)]
            if (number, i) == (4, 0):
                segment = {"size": [height, width], "counts": [100, 300, height * width - 400]}
            annotations.append({**found, "bbox": box.tolist(), "segmentation": segment, "iscrowd": 0})
    document = {"images": images, "annotations": annotations, "categories": CATEGORIES}
    (root / "annotations.json").write_text(json.dumps(document))
    return root


@pytest.fixture(scope="module")
def records(coco: Path) -> Path:
    return recordzoo.prepare(coco)[0]


def write(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    records = list(records)
    with RecordWriter(path, kinds={name: kind for name, kind in KINDS.items() if name in records[0]}) as writer:
        for record in records:
            writer.write(record)
    return path


def theirs(root: Path, transforms: Any, keys: Any = None) -> list[Any]:
    """torchvision's samples with labels from 0; none of the first image, which it gives without boxes."""
    dataset = CocoDetection(root, str(root / "annotations.json"), transforms=transforms)
    wrapped = wrap_dataset_for_transforms_v2(dataset, target_keys=keys)
    samples = [wrapped[i] for i in range(1, len(wrapped))]
    return [(image, {**target, "labels": target["labels"] // 2}) for image, target in samples]


@pytest.mark.parametrize("name", ["geometry", "turned", "nothing"])
def test_samples_are_those_of_torchvision(coco: Path, records: Path, name: str) -> None:
    transforms = v2.Compose(CHAINS[name])
    dataset = recordzoo.open(records, transforms=transforms)
    ours = [dataset[i] for i in range(len(dataset))]
    assert_same(ours[1:], theirs(coco, transforms))
    target = ours[0][1]
    assert target["image_id"] == 7
    assert target["boxes"].shape == (0, 4)
    assert target["boxes"].dtype == torch.float32
    assert target["labels"].shape == (0,)
    assert target["labels"].dtype == torch.int64
    assert Source(dataset).leaves
    for num_workers in (0, 2):
        loader = RecordLoader(dataset, 2, collate_fn=list, num_workers=num_workers)
        assert_same([sample for batch in loader for sample in batch], ours)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools
def test_masks_are_those_of_torchvision(coco: Path, records: Path) -> None:
    transforms = v2.Compose(CHAINS["geometry"])
    keys = ["image_id", "boxes", "masks", "labels"]
    dataset = recordzoo.open(records, transforms=transforms, target_type=keys)
    right = theirs(coco, transforms, keys)
    assert_same([dataset[i] for i in range(1, 5)], right)
    assert dataset[0][1]["masks"].shape == (0, 40, 40)
    assert isinstance(dataset[4][1]["masks"], tv_tensors.Mask)


def test_transforms_that_drop_boxes_drop_their_labels(records: Path) -> None:
    dataset = recordzoo.open(records, transforms=v2.Compose(CHAINS["dropping"]))
    samples = [sample for batch in RecordLoader(dataset, 2, collate_fn=list) for sample in batch]
    assert [target["image_id"] for _, target in samples] == [7, 8, 9, 10, 11]
    for image, target in samples:
        assert image.shape == (3, 24, 24)
        assert len(target["boxes"]) == len(target["labels"])


@pytest.mark.parametrize("format", BoxFormat)
def test_boxes_of_all_formats_are_torchvisions(records: Path, format: BoxFormat) -> None:
    found = replace(find_objects(RecordReader(records)), box_spec=FieldSpec(FieldKind.BOXES, None, format))
    stored = torch.from_numpy(RecordReader(records).value("boxes", 4).copy())
    boxes = tv_tensors.BoundingBoxes(stored, format=format.value, canvas_size=(60, 80))  # type: ignore[call-overload]
    right = v2.functional.convert_bounding_box_format(boxes, new_format="XYXY")
    sound = (stored[:, 2:] >= 0).all(1)  # torchvision 0.24 has other corners for a negative width or height
    assert sound.sum() > 1
    assert torch.equal(torch.from_numpy(found.boxes_of(4, (80, 60)))[sound], right.as_subclass(torch.Tensor)[sound])
    normal = replace(found, box_spec=replace(found.box_spec, is_normalized=True))
    np.testing.assert_allclose(normal.boxes_of(4, (80, 60)) / [80, 60, 80, 60], found.boxes_of(4, (1, 1)), rtol=1e-4)


def test_one_mask_per_image_is_the_target(tmp_path: Path) -> None:
    masks = [np.arange(30 * (40 + i), dtype=np.uint8).reshape(30, 40 + i) % 3 for i in range(3)]
    pairs = [{"image": picture(i, 40 + i, 30), "mask": Image.fromarray(mask)} for i, mask in enumerate(masks)]
    flip = v2.Compose([v2.RandomHorizontalFlip(1), v2.ToImage()])
    dataset = recordzoo.open(write(tmp_path / "m.records", pairs), transforms=flip)
    for (image, target), mask in zip(dataset, masks, strict=True):
        assert isinstance(image, tv_tensors.Image)
        assert isinstance(target, tv_tensors.Mask)
        assert torch.equal(target.as_subclass(torch.Tensor), torch.from_numpy(mask[:, ::-1].copy()))
    ours = list(RecordLoader(dataset, 2, collate_fn=list))
    assert_same(ours, list(DataLoader(dataset, 2, collate_fn=list)))
    assert Source(dataset).leaves


OWN = [
    {
        "boxes": torch.tensor([[1.5, 2, 20, 25], [0, 0, 40 + i, 30]])[: i % 3],
        "labels": torch.tensor([1, 0])[: i % 3],
        "masks": torch.arange(2 * 30 * (40 + i)).reshape(2, 30, 40 + i)[: i % 3].to(torch.uint8),
    }
    for i in range(5)
]


def by_dict_target(path: Path) -> Path:
    pairs = [(jpeg(picture(i, 40 + i, 30)), target) for i, target in enumerate(OWN)]
    return recordzoo.convert(pairs, path, classes=["cat", "dog"])


def by_kinds(path: Path) -> Path:
    samples = [
        {"image": jpeg(picture(i, 40 + i, 30)), **{name: value.numpy() for name, value in target.items()}}
        for i, target in enumerate(OWN)
    ]
    return recordzoo.convert(samples, path, classes=["cat", "dog"], kinds=dict.fromkeys(OWN[0], "raw"))


@pytest.mark.parametrize("way", [by_dict_target, by_kinds])
@pytest.mark.parametrize("name", ["geometry", "nothing"])
def test_converted_sets_give_what_v2_makes_of_their_boxes(
    way: Callable[[Path], Path], name: str, tmp_path: Path
) -> None:
    transforms = v2.Compose(CHAINS[name])
    right = []
    for i, target in enumerate(OWN):
        boxes = tv_tensors.BoundingBoxes(target["boxes"], format="XYXY", canvas_size=(30, 40 + i))  # type: ignore[call-overload]
        image = Image.open(io.BytesIO(jpeg(picture(i, 40 + i, 30)))).convert("RGB")
        whole = {"image_id": i, "boxes": boxes, "masks": tv_tensors.Mask(target["masks"]), "labels": target["labels"]}
        right.append(transforms(image, whole))
    dataset = recordzoo.open(way(tmp_path / "own.records"), transforms=transforms)
    assert dataset.classes == ["cat", "dog"]
    assert_same(list(dataset), right)
    loader = RecordLoader(dataset, 2, collate_fn=list, num_workers=0)
    assert_same([sample for batch in loader for sample in batch], right)


def test_a_converted_sample_without_objects_has_none(tmp_path: Path) -> None:
    """None, and a key that is not there, are no boxes."""
    pairs = [(jpeg(picture(0, 40, 30)), target) for target in (OWN[2], None, {"boxes": OWN[2]["boxes"]})]
    dataset = recordzoo.open(recordzoo.convert(pairs, tmp_path / "own.records"), transforms=v2.Resize((15, 20)))
    found = [target for _, target in dataset]
    assert [tuple(each["boxes"].shape) for each in found] == [(2, 4), (0, 4), (2, 4)]
    assert [len(each["labels"]) for each in found] == [2, 0, 0]
    assert [tuple(each["masks"].shape) for each in found] == [(2, 15, 20), (0, 15, 20), (0, 15, 20)]
    assert found[0]["boxes"][0].tolist() == [0.75, 1, 10, 12.5]


def test_target_type_names_the_keys(records: Path) -> None:
    image, labels = recordzoo.open(records, target_type="labels")[3]
    assert isinstance(image, Image.Image)
    assert labels.tolist() == [0, 1, 2]
    dataset = recordzoo.open(records, transforms=v2.Identity(), target_type=["boxes", "annotations"])
    assert list(dataset[2][1]) == ["boxes", "annotations"]
    assert len(dataset[2][1]["annotations"]) == 2
    for wrong, told in ((["box"], r"'box' for argument target_type.*Did you mean boxes"), ("", "'' for argument")):
        with pytest.raises(ArgumentError, match=told):
            recordzoo.open(records, transforms=v2.Identity(), target_type=wrong)
    with pytest.raises(ArgumentError, match="transforms"):
        recordzoo.open(records, transforms=v2.Identity(), transform=v2.Identity())


def test_a_set_without_boxes_gives_its_pairs_to_the_transforms(tmp_path: Path) -> None:
    path = write(tmp_path / "c.records", ({"image": picture(i, 40, 30), "target": i % 2} for i in range(4)))
    dataset = recordzoo.open(path, transforms=lambda image, label: (image.size, label + 10))
    assert list(dataset) == [((40, 30), 10), ((40, 30), 11)] * 2
    dataset = recordzoo.open(path, transforms=v2.Compose([v2.Resize(20), v2.ToImage()]))
    assert_same(list(RecordLoader(dataset, 2, collate_fn=list)), list(DataLoader(dataset, 2, collate_fn=list)))


@pytest.mark.parametrize(
    ("target_type", "named"),
    [(["labels", "boxes"], "boxes"), ("annotations", "annotations"), ("labels", ""), (None, "")],
)
def test_a_transform_that_leaves_boxes_behind_is_told_of(records: Path, target_type: Any, named: str) -> None:
    flip = v2.RandomHorizontalFlip(1)
    told = pytest.warns(UserWarning, match=f"moves the image, but not target_type '{named}'.* pass transforms=")
    with told if named else contextlib.nullcontext():
        dataset = recordzoo.open(records, transform=flip, target_type=target_type)
    recordzoo.open(records, transform=flip, target_type=target_type, target_transform=len)  # it may move them, too
    quiet = recordzoo.open(records, transform=v2.ColorJitter(0.1), target_type=target_type)
    with told if named else contextlib.nullcontext():
        quiet.transform = flip
    assert len(dataset) == len(quiet) == len(SIZES)


def test_boxes_do_not_fit_a_smaller_variant(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "v.records") as writer:
        writer.write({"image": jpeg(picture(1, 40, 30)), "boxes": np.ones((1, 4)), "target": 0})
    with pytest.raises(ArgumentError, match="pixels of the original images"):
        recordzoo.open(tmp_path / "v.records", transforms=v2.Identity(), variant="24")


def test_what_are_no_boxes_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "b.records", [{"image": picture(1, 40, 30), "boxes": np.zeros((1, 3), np.float32)}])
    with pytest.raises(CorruptRecordError, match="has no valid boxes"):
        recordzoo.open(path, transforms=v2.Identity())[0]


def test_polygons_need_a_package_and_say_so(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordzoo.base.settings.is_installed", lambda package: False)
    found = find_objects(RecordReader(records))
    with pytest.raises(PrepareError, match="pycocotools, which is not installed"):
        found.masks_of(1, SIZES[1])


def test_a_mask_of_another_size_is_refused_as_by_v2(tmp_path: Path) -> None:
    boxes, masks = np.ones((1, 4), np.float32), np.zeros((1, 15, 20), np.uint8)
    path = write(tmp_path / "m.records", [{"image": picture(1, 40, 30), "boxes": boxes, "masks": masks}])
    dataset = recordzoo.open(path, transforms=v2.RandomCrop(8))
    for loader in (DataLoader, RecordLoader):
        with pytest.raises(ValueError, match="multiple HxW"):
            next(iter(loader(dataset, 2, collate_fn=list, num_workers=0)))
