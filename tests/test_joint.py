"""Transforms of an image with its boxes and masks: the samples of torchvision's class in torchvision's loader."""

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torch.utils.data import DataLoader
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.datasets import VOCDetection, VOCSegmentation, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

import recordzoo
from recordzoo import RecordLoader, VOCDetectionRecord, VOCSegmentationRecord
from recordzoo.errors import ImageError
from recordzoo.images import decode
from recordzoo.images.decode import ArrayFrame, Deferred, deferring
from recordzoo.loader.geometry import resized
from recordzoo.loader.plan import PixelOp, decide
from recordzoo.loader.render import render
from recordzoo.loader.source import Source, read_joint
from recordzoo.loader.table import on_picture, read_plan
from tests.batching import assert_same
from tests.contract import DECLARED, ROWS
from tests.fakes import voc
from tests.fakes.pictures import jpeg, picture

# Any, here and below: samples and targets of all kinds.
pytestmark = pytest.mark.usefixtures("threads")

TO_FLOAT = v2.ToDtype(torch.float32, scale=True)
CHAINS = {
    "geometry": [v2.Resize((50, 60)), v2.CenterCrop(40), v2.RandomHorizontalFlip(1), v2.ToImage(), TO_FLOAT],
    "tensors": [v2.ToImage(), v2.Resize(40), v2.RandomHorizontalFlip(1), v2.SanitizeBoundingBoxes(), TO_FLOAT],
    "padded": [v2.Pad([3, 5]), v2.Resize((50, 60)), v2.RandomVerticalFlip(1), v2.ToImage()],
    "boxes": [v2.ConvertBoundingBoxFormat("CXCYWH"), v2.ClampBoundingBoxes(), v2.ToImage(), v2.ToPureTensor()],
    "colours": [v2.RandomInvert(1), v2.RandomGrayscale(1), v2.ToImage()],
    "turned": [v2.Resize((50, 60)), v2.RandomRotation((20, 20)), v2.SanitizeBoundingBoxes(), v2.ToImage(), TO_FLOAT],
    "not known": [v2.Resize((50, 60)), v2.RandomRotation((20, 20), expand=True), v2.ToImage(), TO_FLOAT],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return voc.build().write_tree(tmp_path_factory.mktemp("voc"))


def batches(dataset: Any) -> tuple[list[Any], list[Any]]:
    assert Source(dataset).leaves
    ours = RecordLoader(dataset, 4, collate_fn=list, num_workers=2)
    return list(ours), list(DataLoader(dataset, 4, collate_fn=list))


@pytest.mark.parametrize("name", CHAINS)
def test_detection(root: Path, name: str) -> None:
    transforms = v2.Compose(CHAINS[name])
    ours = wrap_dataset_for_transforms_v2(VOCDetectionRecord(root, transforms=transforms))
    found, right = batches(ours)
    assert_same(found, right)
    theirs = wrap_dataset_for_transforms_v2(VOCDetection(root, transforms=transforms))
    assert_same(found, list(DataLoader(theirs, 4, collate_fn=list)))


@pytest.mark.parametrize("name", ["geometry", "tensors", "turned", "not known"])
def test_segmentation(root: Path, name: str) -> None:
    chain = [each for each in CHAINS[name] if not isinstance(each, v2.SanitizeBoundingBoxes)]
    ours = wrap_dataset_for_transforms_v2(VOCSegmentationRecord(root, transforms=v2.Compose(chain)))
    theirs = wrap_dataset_for_transforms_v2(VOCSegmentation(root, transforms=v2.Compose(chain)))
    found, _ = batches(ours)
    assert_same(found, list(DataLoader(theirs, 4, collate_fn=list)))


def test_pairs_that_v2_does_not_move_together(root: Path) -> None:
    """It takes a mask that is a picture for a second image, and a `transform` gets the image alone."""
    chain = [v2.Resize((30, 20)), v2.Lambda(lambda image: image), v2.PILToTensor(), TO_FLOAT]
    apart = VOCDetectionRecord(root, transform=v2.Compose(chain), target_transform=lambda target: target["annotation"])
    together = VOCSegmentationRecord(root, transforms=v2.Compose([v2.Resize((30, 20)), v2.ToImage()]))
    for dataset in (apart, together):
        assert_same(*batches(dataset))


FILLS = {Image.Image: (9, 8, 7), tv_tensors.Image: [3.0], tv_tensors.Mask: 5, "others": 1}
ANY = [
    v2.RandomResizedCrop((20, 30)),
    v2.RandomResizedCrop(9, (0.3, 1.0), (0.5, 2.0)),
    v2.RandomResizedCrop(9, (0.9, 1.2)),
    v2.RandomCrop((30, 40), padding=[3, 5, 7, 9]),
    v2.RandomCrop((60, 90), pad_if_needed=True, fill=FILLS),
    v2.CenterCrop((41, 90)),
    v2.Pad([1, 2, 3, 4], fill=FILLS),
    v2.RandomHorizontalFlip(1),
    v2.RandomVerticalFlip(1),
    v2.RandomZoomOut(fill=defaultdict(lambda: 4, FILLS), p=1),
    v2.RandomZoomOut(side_range=(1.5, 2.5), p=1),
    v2.RandomIoUCrop(),
    v2.RandomIoUCrop(0.1, 0.9, 0.8, 1.2, sampler_options=[0.2, 0.6], trials=9),
    v2.ScaleJitter((70, 40), (0.3, 1.5)),
    v2.RandomShortestSize([20, 30, 64], max_size=70),
    v2.RandomResize(20, 40),
]
"""Transforms for PIL images and tensors."""
OF_PICTURES = [
    v2.RandomRotation(30),
    v2.RandomRotation((-200, 200), v2.InterpolationMode.BILINEAR, center=(3, 4.5), fill=FILLS),
    v2.RandomAffine(20, (0.2, 0.1), (0.7, 1.4), (-10, 10, -5, 5), fill=[9]),
    v2.RandomAffine(0, shear=30, interpolation=v2.InterpolationMode.BICUBIC, center=[20, 1], fill=FILLS),
    v2.RandomPerspective(p=1),
    v2.RandomPerspective(1.0, p=1, interpolation=Image.Resampling.NEAREST, fill=FILLS),
    v2.RandomPhotometricDistort(p=0.7),
]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_tensor", [False, True])
@pytest.mark.parametrize("transform", [*ANY, *OF_PICTURES], ids=lambda each: type(each).__name__)
def test_pixels_boxes_and_masks_of_any_transform(
    transform: Any, is_tensor: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """v2 itself, with the parameters that were decided."""
    if is_tensor and (transform in OF_PICTURES or count > 25):
        return
    plan = read_joint(v2.Compose([v2.ToImage(), transform] if is_tensor else [transform]))
    assert plan is not None
    assert not plan.rest
    rng = np.random.default_rng(3)
    for number in range(count):
        height, width = (30 + 7 * (number % 7), 70 - 9 * (number % 5))
        picture = Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8))
        corners = np.sort(rng.uniform(0, 1, (6, 2, 2)) * (width, height), axis=1).reshape(6, 4)
        boxes = torch.as_tensor(corners.astype(np.int64) if number % 2 else corners)
        target = {
            "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width)),  # type: ignore[call-overload]
            "masks": tv_tensors.Mask(torch.as_tensor(rng.integers(0, 21, (2, height, width), np.uint8))),
            "points": tv_tensors.KeyPoints(torch.rand(4, 2) * 30, canvas_size=(height, width)),
            "labels": torch.arange(6),
        }
        if number >= 25:  # from here on, pixels count
            target = {"boxes": target["boxes"]}
        draws = rng.random(plan.image.num_draws).tolist()
        actions, found = plan.decide(ArrayFrame(np.asarray(picture)), target, draws)
        (step,) = plan.image.steps
        _, params = step.decide_with(target, (height, width), draws)
        if isinstance(transform, v2.RandomPhotometricDistort):
            made: Any = picture
            for change in actions:
                assert isinstance(change, PixelOp)
                made = on_picture(change, made)
            right: Any = (made, target)
        else:
            monkeypatch.setattr(type(transform), "make_params", lambda self, inputs, params=params: params or {})
            right = transform(v2.functional.to_image(picture) if is_tensor else picture, target)
        image = render(ArrayFrame(np.asarray(picture)), actions, "exact")
        assert torch.equal(image, right[0] if is_tensor else v2.functional.pil_to_tensor(right[0]))
        assert_same(found, right[1])
        assert found["boxes"].canvas_size == right[1]["boxes"].canvas_size


RANDOM = [each for each in (*ANY, *OF_PICTURES[:-1]) if type(each).make_params is not v2.Transform.make_params]


def flat(params: dict[str, Any] | None, shape: int) -> list[float]:
    """Return the numbers of parameters, and -1 for each if nothing is done; of a box, some sums and products, too."""
    if params and "top" in params:
        top, left, height, width = (params[name] for name in ("top", "left", "height", "width"))
        params = {**params, "area": height * width, "bottom": top + height, "right": left + width}
    values = [params[name] for name in sorted(params) if name != "is_within_crop_area"] if params else [[-1] * shape]
    return [float(number) for each in values for number in (each if isinstance(each, list | tuple) else [each])]


@pytest.mark.parametrize("transform", RANDOM, ids=lambda each: type(each).__name__)
def test_parameters_are_distributed_as_those_of_v2(transform: Any) -> None:
    plan = read_joint(v2.Compose([transform]))
    assert plan is not None
    (step,) = plan.image.steps
    size = (61, 83)
    corners = torch.tensor([[3.0, 4.0, 50.0, 60.0], [20.0, 10.0, 40.0, 20.0]])
    boxes = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=size)  # type: ignore[call-overload]
    torch.manual_seed(1)
    all_params = [transform.make_params([boxes]) for _ in range(2000)]
    for params in all_params:
        if isinstance(transform, v2.RandomResize):
            params["size"] = resized(tuple(params["size"]), None, size)
        if isinstance(transform, v2.RandomCrop):
            params["needs_crop"] = True
    shape = max(len(flat(params, 0)) for params in all_params)
    rights = np.array([flat(params, shape) for params in all_params])
    draws = np.random.default_rng(2).random((2000, step.num_draws))
    found = np.array([flat(step.decide_with({"boxes": boxes}, size, each.tolist())[1], shape) for each in draws])
    assert found.shape == rights.shape
    for column, right in zip(found.T, rights.T, strict=True):
        assert stats.ks_2samp(column, right).pvalue > 1e-4


def test_photometric_distortion_is_distributed_as_v2s() -> None:
    plan = read_plan(v2.RandomPhotometricDistort(hue=(-0.1, 0.3), p=0.4))
    found = [decide(plan.steps, (4, 4), each.tolist()) for each in np.random.default_rng(2).random((3000, 11))]
    names: list[list[str]] = [[getattr(change, "name", "") for change in each] for each in found]
    for name in ("brightness", "contrast", "saturation", "hue", "permute"):
        assert stats.binomtest(sum(name in each for each in names), 3000, 0.4).pvalue > 1e-3
    both = [each.index("contrast") < each.index("hue") for each in names if {"contrast", "hue"} <= {*each}]
    assert stats.binomtest(sum(both), len(both), 0.5).pvalue > 1e-3
    hues = [each.arguments[0] for action in found for each in action if getattr(each, "name", "") == "hue"]  # type: ignore[union-attr]
    assert stats.kstest(hues, stats.uniform(-0.1, 0.4).cdf).pvalue > 1e-3


def test_an_image_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    root = voc.build().write_tree(tmp_path)
    for path in (root / "VOCdevkit/VOC2012/JPEGImages").iterdir():
        path.write_bytes(path.read_bytes()[:-200])
    dataset = wrap_dataset_for_transforms_v2(VOCDetectionRecord(root, transforms=v2.Compose(CHAINS["geometry"])))
    with pytest.raises(ImageError, match=r"JPEGImages/.*jpg"):
        list(RecordLoader(dataset, 4, collate_fn=list))


def test_a_class_of_ones_own_is_left_alone(root: Path) -> None:
    class Own(VOCDetectionRecord):
        def __getitem__(self, index: int) -> Any:
            image, target = super().__getitem__(index)
            return image, len(target)

    class Renamed(VOCDetectionRecord):
        pass

    assert not Source(Own(root, transforms=v2.Resize(9))).leaves
    assert Source(Renamed(root, transforms=v2.Resize(9))).leaves


def test_a_deferred_image_is_an_image() -> None:
    data = jpeg(picture(np.random.default_rng(0), 40, 30))
    right = decode.decoded_rgb(data)
    with deferring():
        image, other = decode.decode_rgb(data), decode.decode_rgb(data)
    assert isinstance(image, Deferred)
    assert (image.size, image.mode, image.is_loaded) == (right.size, "RGB", False)
    assert np.array_equal(np.asarray(image), np.asarray(right))
    assert image.is_loaded
    assert pickle.loads(pickle.dumps(other)).tobytes() == right.tobytes()
    assert other.resize((5, 6)).tobytes() == right.resize((5, 6)).tobytes()
    assert type(decode.decode_rgb(data)) is not Deferred


WITH_PIXELS = {
    row.name.split()[0]: row
    for row in (*ROWS, *DECLARED)
    if {"bbox", "boxes", "parts", "segmentation"} & set(row.arguments.get("target_type", ()))
    and hasattr(getattr(recordzoo, f"{row.name.split()[0]}Record"), "_TARGET_TYPES")
}
MOVED = {"bbox": tv_tensors.BoundingBoxes, "boxes": tv_tensors.BoundingBoxes, "segmentation": tv_tensors.Mask}


@pytest.mark.parametrize("name", WITH_PIXELS)
def test_target_types_in_pixels_move_with_the_image(name: str, tmp_path: Path) -> None:
    row = WITH_PIXELS[name]
    pair = row.build(tmp_path, row.sources[0])
    types = ["category", *(kind for kind in pair.ours._TARGET_TYPES if kind in (*MOVED, "parts"))]

    def opened(**options: Any) -> Any:
        return pair.ours(pair.our_root, **{**row.arguments, "target_type": types}, **options)

    plain = opened()
    flipped = opened(transforms=v2.Compose([v2.RandomHorizontalFlip(1), v2.ToImage(), TO_FLOAT]))
    image, target = plain[0]
    for kind, before, after in zip(types[1:], target[1:], flipped[0][1][1:], strict=True):
        if kind == "parts":
            (points, visible), right = after, image.width - before[:, 0]
            assert isinstance(points, tv_tensors.KeyPoints)
            assert torch.equal(visible, before[:, 2])
            assert (points[:, 0] - right).abs().max() <= 1
            continue
        assert isinstance(after, MOVED[kind])
        if kind == "segmentation":
            assert np.array_equal(after.numpy(), np.asarray(before)[:, ::-1])
            continue
        x, y = before.reshape(-1, 4)[:, :2].T
        width = before.reshape(-1, 4)[:, 2] - (x if after.format.value == "XYXY" else 0)
        assert torch.equal(after[:, 0], image.width - x - width)
        assert torch.equal(after[:, 1], y)
    for dataset in (flipped, opened(transform=v2.Compose([v2.ToImage(), TO_FLOAT]))):
        assert_same(*batches(dataset))
    with pytest.warns(UserWarning, match=r"RandomHorizontalFlip in transform= moves .* pass transforms="):
        opened(transform=v2.Compose([v2.RandomHorizontalFlip(), v2.ToImage()]))


OTHERS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "CelebA": (
        {"target_type": ["attr", "landmarks"]},
        lambda target: target[1].reshape(-1, 2)[:, 0],
        lambda moved: moved[1][:, 0],
    ),
    "Caltech101": (  # an outline begins at the corner of its box, which the fake's files have at (1, 2)
        {"target_type": ["category", "annotation"]},
        lambda target: torch.from_numpy(target[1][0]) + 1,
        lambda moved: moved[1][:, 0],
    ),
    "WIDERFace": ({"split": "val"}, lambda target: target["bbox"].T[[0, 2]].sum(0), lambda moved: moved["bbox"][:, 0]),
}
"""Arguments, and horizontal places in a target: of the right side, and of the left one when it is flipped."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_targets_in_pixels_move_with_the_image(name: str, tmp_path: Path) -> None:
    arguments, before, after = OTHERS[name]
    pair = next(row for row in DECLARED if row.name == name).build(tmp_path, "archive")
    plain = pair.ours(pair.our_root, **arguments)
    flips = v2.Compose([v2.RandomHorizontalFlip(1), v2.ToImage(), TO_FLOAT])
    flipped = pair.ours(pair.our_root, **arguments, transforms=flips)
    for (image, target), (_, moved) in zip(plain, flipped, strict=True):
        assert (after(moved) + before(target) - image.width).abs().max() < 1.001
    for dataset in (flipped, pair.ours(pair.our_root, **arguments, transform=v2.Compose([v2.ToImage(), TO_FLOAT]))):
        assert_same(*batches(dataset))
    with pytest.warns(UserWarning, match=r"RandomHorizontalFlip in transform= moves .* pass transforms="):
        plain.transform = flips


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("VOCDetection", {}),
        ("Cityscapes", {"target_type": "semantic"}),
        ("OxfordIIITPet", {"target_types": ["category", "segmentation"]}),
        ("CocoStuff", {}),
    ],
)
def test_a_transform_that_leaves_targets_behind_is_told_of(name: str, arguments: Any, tmp_path: Path) -> None:
    pair = next(row for row in DECLARED if row.name == name).build(tmp_path, "archive")
    flips = v1.Compose([v1.RandomHorizontalFlip(), v1.ToTensor()])
    with pytest.warns(UserWarning, match=r"RandomHorizontalFlip in transform= moves .* target.* pass transforms="):
        pair.ours(pair.our_root, **arguments, transform=flips)
    pair.ours(pair.our_root, **arguments, transform=flips, target_transform=len)  # it may move them, too
    pair.ours(pair.our_root, **arguments, transform=v1.ColorJitter(0.1))
