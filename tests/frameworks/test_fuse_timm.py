"""timm's transforms in a `RecordLoader`: timm's own result to the bit, for the same crop, flip and interpolation."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torchvision import transforms as v1

from recordzoo.images.decode import decode_rgb, open_encoded
from recordzoo.loader.compiled import compiled_code
from recordzoo.loader.making import uniforms
from recordzoo.loader.plan import Action, Crop, Erase, Flip, Resize, decide
from recordzoo.loader.render import RowRenderer, render
from recordzoo.loader.table import read_plan
from tests.fakes.pictures import jpeg, picture

timm_data = pytest.importorskip("timm.data", reason="needs the extra `frameworks`: make frameworks")
timm_transforms = pytest.importorskip("timm.data.transforms")
timm_erasing = pytest.importorskip("timm.data.random_erasing")

JPEG = jpeg(picture(np.random.default_rng(5), 203, 151, 0.6, (40, 30, 100, 80)))
SIZE = 151, 203
TRAINING = {
    "as it is": {"color_jitter": None},
    "random interpolation": {"color_jitter": None, "interpolation": "random"},
    "bicubic": {"color_jitter": None, "interpolation": "bicubic", "hflip": 0.0},
    "bytes": {"color_jitter": None, "use_prefetcher": True, "scale": (0.5, 1.0), "ratio": (0.5, 2.0)},
}


# Any, here and below: transforms.
def decided(transform: Any, count: int) -> Iterator[list[Action]]:
    plan = read_plan(transform)
    assert plan.is_whole, plan.reason
    for row in uniforms(1, 2, np.arange(count), plan.num_draws).tolist():
        yield decide(plan.steps, SIZE, row)


def ours(transform: Any, actions: list[Action]) -> torch.Tensor:
    """What a loader makes, in one call of compiled code."""
    plan, found = read_plan(transform), compiled_code()
    assert found is not None
    assert plan.size is not None
    rows = torch.empty((1, 3, *plan.size), dtype=plan.pointwise.dtype)
    assert RowRenderer(*plan.size, plan.pointwise, "exact", found).make([(open_encoded(JPEG), actions)], rows) == []
    return rows[0]


def theirs(transform: Any, actions: list[Action]) -> Any:
    """What timm makes, for the same actions."""
    crop = next((each for each in actions if isinstance(each, Crop)), Crop(0, 0, 0, 0))
    mode = next(each.resampling.mode for each in actions if isinstance(each, Resize))
    draw = 0.0 if Flip() in actions else 1.0
    with pytest.MonkeyPatch.context() as patch:
        kind = timm_transforms.RandomResizedCropAndInterpolation
        patch.setattr(kind, "get_params", lambda *_: (crop.top, crop.left, crop.height, crop.width))
        patch.setattr(random, "choice", lambda modes: next(each for each in modes if each.value == mode))
        patch.setattr(torch, "rand", lambda *_: torch.tensor([draw]))
        return transform(decode_rgb(JPEG))


@pytest.mark.needs("numba", "turbojpeg")
@pytest.mark.parametrize("name", TRAINING)
def test_training(name: str) -> None:
    transform = timm_data.create_transform(48, is_training=True, **TRAINING[name])
    for actions in decided(transform, 20):
        found, right = ours(transform, actions), theirs(transform, actions)
        assert (found.dtype, found.shape) == (right.dtype, right.shape)
        assert torch.equal(found, right)


@pytest.mark.needs("numba", "turbojpeg")
@pytest.mark.parametrize(
    "options", [{}, {"interpolation": "bicubic", "crop_pct": 0.95}, {"crop_mode": "squash"}, {"normalize": False}]
)
def test_evaluation(options: dict[str, Any]) -> None:
    transform = timm_data.create_transform(48, is_training=False, **options)
    (actions,) = decided(transform, 1)
    assert torch.equal(ours(transform, actions), transform(decode_rgb(JPEG)))


SIZES = {
    "center": timm_transforms.CenterCropOrPad((90, 300), fill=(7, 8, 9)),
    "random crop": timm_transforms.RandomCropOrPad((200, 90), fill=9),
    "ratio": timm_transforms.ResizeKeepRatio(70),
    "longest": timm_transforms.ResizeKeepRatio((70, 80), 0.7, "bicubic"),
    "random ratio": timm_transforms.ResizeKeepRatio(70, 1, random_scale_prob=0.6, random_aspect_prob=0.7),
    "random area": timm_transforms.ResizeKeepRatio(70, random_scale_prob=1.0, random_scale_area=True),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_and_crops_with_padding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transform = SIZES[name]
    picture = decode_rgb(JPEG)
    random.seed(1)
    right = [transform.get_params(picture, *given(transform)) for _ in range(1000)] if name != "center" else []
    found = []
    for number, (action,) in enumerate(decided(v1.Compose([transform, v1.PILToTensor()]), 1000)):
        assert isinstance(action, Crop | Resize)
        box = (action.top, action.left) if isinstance(action, Crop) else (action.height, action.width)
        found.append(box)
        if number < 20:
            monkeypatch.setattr(type(transform), "get_params", lambda *_, box=box: box, raising=False)
            image = render(open_encoded(JPEG), [action], "exact")
            assert torch.equal(image, v1.functional.pil_to_tensor(transform(picture)))
    for values in zip(np.array(found).T, np.array(right).T, strict=False):
        assert stats.ks_2samp(*values).pvalue > 1e-3


def given(transform: Any) -> list[Any]:
    """Return the arguments with which timm asks for parameters."""
    names = ("scale_prob", "scale_range", "scale_area", "aspect_prob", "aspect_range")
    if isinstance(transform, timm_transforms.RandomCropOrPad):
        return [transform.size]
    return [transform.size, transform.longest, *(getattr(transform, f"random_{name}") for name in names)]


def test_tensors() -> None:
    """timm's class takes both; what is a tensor already stays as it is."""
    maker = timm_transforms.MaybeToTensor()
    assert read_plan(v1.Compose([v1.PILToTensor(), maker, timm_transforms.MaybePILToTensor()])).is_whole
    unscaled = v1.Compose([v1.CenterCrop(40), timm_transforms.ToTensor()])
    plan = read_plan(unscaled)
    (actions,) = decided(unscaled, 1)
    found = plan.pointwise.apply_(render(open_encoded(JPEG), actions, "exact").float())
    assert torch.equal(found, unscaled(decode_rgb(JPEG)))


def test_boxes_are_distributed_as_timms() -> None:
    erasing = timm_erasing.RandomErasing(0.7, max_area=0.5, min_aspect=0.4, device="cpu")
    transform = v1.Compose([v1.CenterCrop(SIZE), timm_transforms.MaybeToTensor(), erasing])
    found = [(box.top, box.left, box.height, box.width) for (_, *boxes) in decided(transform, 1000) for box in boxes]  # type: ignore[union-attr]
    boxes = [each for (_, *boxes) in decided(transform, 9) for each in boxes]
    assert {type(each) for each in boxes} == {Erase}
    assert {each.values for each in boxes if isinstance(each, Erase)} == {(0.0, 0.0, 0.0)}
    random.seed(5)
    right = []
    for _ in range(1000):
        image = erasing(torch.ones(1, *SIZE))[0]
        rows, columns = ((image == 0).any(1).nonzero(), (image == 0).any(0).nonzero())
        if len(rows):
            right.append((int(rows[0]), int(columns[0]), len(rows), len(columns)))
    assert stats.binomtest(len(found), 1000, 0.7).pvalue > 1e-3
    for values in zip(np.array(found).T, np.array(right).T, strict=True):
        assert stats.ks_2samp(*values).pvalue > 1e-3


class Own(timm_transforms.MaybeToTensor):  # type: ignore[misc]  # timm is untyped here
    pass


def test_what_is_left_to_timm() -> None:
    for options, reason in (
        ({"re_mode": "pixel"}, "it fills boxes with noise"),
        ({"re_count": 3}, "it erases several"),
    ):
        plan = read_plan(timm_data.create_transform(48, is_training=True, re_prob=0.2, **options))
        assert len(plan.rest) == 1
        assert reason in plan.reason
    augmented = read_plan(timm_data.create_transform(48, is_training=True, auto_augment="rand-m9-mstd0.5"))
    assert "timm.data.auto_augment.RandAugment is not one of those known" in augmented.reason
    assert len(augmented.fused) == 2
    assert "Own is not one" in read_plan(Own()).reason
    drawn = timm_transforms.ResizeKeepRatio(48, interpolation="random")
    assert read_plan(drawn).reason == "it draws its interpolation"
    assert "reflect" in read_plan(timm_transforms.CenterCropOrPad(48, padding_mode="reflect")).reason
    assert "on cuda" in read_plan(timm_erasing.RandomErasing(device="cuda")).reason
