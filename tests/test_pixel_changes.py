"""Changes of pixels: the compiled operations give torchvision's bytes, and transforms become the right ones."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import stats
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, autoaugment, v2

from recordzoo.images.decode import ArrayFrame, open_encoded
from recordzoo.loader import render as rendering
from recordzoo.loader.changes import coefficients, named_changes
from recordzoo.loader.compiled import BYTES, Compiled, compiled_code
from recordzoo.loader.making import uniforms
from recordzoo.loader.plan import Action, Erase, Flip, PixelOp, decide
from recordzoo.loader.render import RowRenderer, erase, render
from recordzoo.loader.table import PIXEL_OPS, compiled_form, on_picture, read_plan
from tests.fakes.pictures import jpeg, picture

RNG = np.random.default_rng(2)
PHOTO = picture(RNG, 123, 91, 0.6, (40, 30, 60, 40))
SIZES = [(64, 64), (37, 51), (1, 1), (2, 3), (3, 3), (7, 200)]
needs_numba = pytest.mark.needs("numba")

# Any, here and below: arguments of torchvision's functions, transforms, results of either kind.
ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    **{name: [(f,) for f in (0, 0.2, 0.73, 1, 1.3, 1.99, 2.5)] for name in ("brightness", "contrast", "saturation")},
    "sharpness": [(f,) for f in (0, 0.01, 0.5, 1, 1.9, 3.0)],
    "hue": [(f,) for f in (-0.5, -0.2, 0, 0.003, 0.1, 0.37, 0.5)],
    "posterize": [(bits,) for bits in range(1, 9)],
    "solarize": [(threshold,) for threshold in (0, 1, 99.5, 128, 255, 256)],
    "affine": [
        (angle, move, scale, shear, mode, fill, center)
        for angle, move, scale, shear in (
            (0.0, [3, 0], 1.0, [0.0, 0.0]),
            (0.0, [0, -40], 1.0, [0.0, 0.0]),
            (0.0, [0, 0], 1.0, [31.3, 0.0]),
            (0.0, [0, 0], 1.0, [0.0, -44.7]),
            (0.0, [0, 0], 0.83, [0.0, 0.0]),
            (-33.4, [2, -5], 1.31, [8.0, -21.0]),
        )
        for mode, fill, center in (
            (InterpolationMode.NEAREST, None, None),
            (InterpolationMode.NEAREST, (1, 2, 250), [0, 0]),
            (InterpolationMode.BILINEAR, 128, None),
            (InterpolationMode.BICUBIC, [7.9], (3.5, 11.0)),
        )
    ],
    "rotate": [
        (4.5 * step, InterpolationMode(mode), False, *others)
        for step in range(-40, 41)
        for mode, *others in (("nearest", None, None), ("bilinear", None, [7.0, 8.0, 9.0]), ("bicubic", (5.0, 1.5), 0))
    ],
    "perspective": [
        (None, None, InterpolationMode(mode), fill, coefficients)
        for coefficients in (
            [1.3, 0.1, -4.0, -0.05, 1.2, -2.0, 0.004, -0.003],
            [0.7, -0.2, 3.5, 0.1, 0.9, 0.25, -0.01, 0.002],
            [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
        )
        for mode, fill in (("nearest", None), ("bilinear", (1, 2, 250)), ("bicubic", 128))
    ],
    "permute": list(itertools.permutations(range(3))),
    "blur": [(*window, sigma, sigma) for window in ((5, 9), (23, 23)) for sigma in (0.1, 0.9, 2.0)],
    "grayscale": [()],
    "invert": [()],
    "autocontrast": [()],
    "equalize": [()],
    "mirror": [()],
    "upend": [()],
}


def pixels(height: int, width: int) -> Iterator[NDArray[np.uint8]]:
    rng = np.random.default_rng(height * width)
    yield rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    yield np.clip(rng.normal((60, 120, 220), 20, (height, width, 3)), 0, 255).astype(np.uint8)
    yield np.full((height, width, 3), 77, np.uint8)
    yield (rng.integers(0, 2, (height, width, 3)) * 255).astype(np.uint8)


@pytest.fixture(scope="module")
def found() -> Compiled:
    existing = compiled_code()
    assert existing is not None
    assert existing.exact_changes  # compiles what `change` calls
    return existing


def changed(found: Compiled, image: NDArray[np.uint8], change: PixelOp) -> NDArray[np.uint8]:
    size = image.shape[0], image.shape[1]
    asked = compiled_form(change, size)
    assert asked is not None
    out = np.empty((1, image.size), np.uint8)
    found.change(image.reshape(1, -1), [0], size, [[asked]], BYTES, out, is_last=True)
    return out.reshape(image.shape)


# The operations


@needs_numba
@pytest.mark.parametrize("name", PIXEL_OPS)
def test_as_torchvision(found: Compiled, name: str) -> None:
    assert name in found.exact_changes
    for height, width in SIZES:
        for image, arguments in itertools.product(pixels(height, width), ARGUMENTS[name]):
            if compiled_form(PixelOp(name, arguments), (height, width)) is None:
                continue
            right = np.asarray(on_picture(PixelOp(name, arguments), Image.fromarray(image))).astype(np.int16)
            made = changed(found, image, PixelOp(name, arguments))
            assert np.abs(made - right).max() <= PIXEL_OPS[name].tolerance, (image.shape, arguments)


@needs_numba
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hue", "saturation", "grayscale"])
def test_every_color(found: Compiled, name: str) -> None:
    levels = np.arange(256, dtype=np.uint8)
    change = PixelOp(name, PIXEL_OPS[name].probes[0])
    for red in range(256):
        image = np.empty((256, 256, 3), np.uint8)
        image[..., 0], image[..., 1], image[..., 2] = red, levels[:, None], levels
        assert np.array_equal(changed(found, image, change), np.asarray(on_picture(change, Image.fromarray(image))))


@pytest.mark.parametrize(
    ("change", "size"),
    [
        (PixelOp("blur", (23, 5, 1.0, 1.0)), (40, 11)),
        (PixelOp("blur", (5, 23, 1.0, 1.0)), (11, 40)),
        (PixelOp("posterize", (9,)), (4, 4)),
    ],
)
def test_where_torchvision_raises_nothing_is_compiled(change: PixelOp, size: tuple[int, int]) -> None:
    assert compiled_form(change, size) is None
    with pytest.raises((RuntimeError, ValueError)):
        on_picture(change, Image.new("RGB", (size[1], size[0])))


@needs_numba
def test_what_differs_from_torchvision_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PIXEL_OPS, "invert", replace(PIXEL_OPS["invert"], numbers=lambda size: ("mirror", ())))
    found = Compiled()
    rows = torch.empty((2, 3, 40, 50), dtype=torch.uint8)
    images = [(ArrayFrame(np.asarray(PHOTO)[:40, :50]), [PixelOp(name)]) for name in ("invert", "mirror")]
    renderer = RowRenderer(40, 50, None, "exact", found)
    assert found.exact_changes == PIXEL_OPS.keys() - {"invert"}
    assert renderer.make(images, rows) == [0]


# torchvision's transforms


NAMES = {
    "Posterize": [1.0, 4.0, 8.0],
    "Solarize": [0.0, 93.5, 255.0],
    "Rotate": [-135.0, -4.5, 0.0, 90.0, 180.0],
    "TranslateX": [-32.0, -1.5, 0.0, 9.9],
    "TranslateY": [-32.0, -1.5, 0.0, 9.9],
    **{name: [-0.99, 0.0, 0.5] for name in ("ShearX", "ShearY", "Brightness", "Color", "Contrast", "Sharpness")},
    **{name: [0.0] for name in ("AutoContrast", "Equalize", "Invert", "Identity")},
}


@pytest.mark.parametrize(("mode", "fill"), [("nearest", None), ("bilinear", [10.0, 20.0, 30.0])])
@pytest.mark.parametrize("name", NAMES)
def test_names_of_automatic_augmentations(name: str, mode: str, fill: Any) -> None:
    of_v2 = v2.TrivialAugmentWide()
    for magnitude in NAMES[name]:
        made = PHOTO
        for change in named_changes(name, magnitude, InterpolationMode(mode), fill):
            made = on_picture(change, made)
        interpolation = InterpolationMode(mode)
        assert made == autoaugment._apply_op(PHOTO, name, magnitude, interpolation, fill)
        of_its_own = magnitude / 255 if name == "Solarize" else magnitude
        arguments = name, of_its_own, interpolation, {Image.Image: fill}
        assert made == of_v2._apply_image_or_video_transform(PHOTO, *arguments)


def decided(transform: Any, count: int = 400, size: tuple[int, int] = (91, 123)) -> list[list[Action]]:
    plan = read_plan(transform)
    assert plan.rest == ()
    draws = uniforms(5, 0, np.arange(count), plan.num_draws)
    return [decide(plan.steps, size, each.tolist()) for each in draws]


def changes_of(actions: list[Action]) -> list[PixelOp]:
    assert all(isinstance(action, PixelOp) for action in actions)
    return [action for action in actions if isinstance(action, PixelOp)]


@pytest.mark.parametrize("version", [v1, v2])
def test_color_jitter(version: Any) -> None:
    found = [changes_of(each) for each in decided(version.ColorJitter(0.4, (0.1, 0.3), 0, (-0.2, 0.1)), 4000)]
    names = ["brightness", "contrast", "hue"]
    assert {frozenset(change.name for change in each) for each in found} == {frozenset(names)}
    orders = Counter(tuple(change.name for change in each) for each in found)
    assert len(orders) == 6
    assert stats.chisquare(list(orders.values())).pvalue > 0.001
    for name, low, high in (("brightness", 0.6, 1.4), ("contrast", 0.1, 0.3), ("hue", -0.2, 0.1)):
        factors = [change.arguments[0] for each in found for change in each if change.name == name]
        assert stats.kstest(factors, stats.uniform(low, high - low).cdf).pvalue > 0.001


@pytest.mark.parametrize("version", [v1, v2])
@pytest.mark.parametrize("name", ["TrivialAugmentWide", "RandAugment"])
def test_automatic_augmentations(version: Any, name: str) -> None:
    transform = getattr(version, name)()
    found = decided(transform, 3000)
    num_operations = 1 if name == "TrivialAugmentWide" else transform.num_ops
    assert max(map(len, found)) == num_operations
    kinds = Counter(change.name for each in found for change in changes_of(each))
    share = num_operations * len(found) / 14
    expected = {**dict.fromkeys(kinds, share), "affine": 4 * share}
    assert kinds.keys() == expected.keys()
    assert all(abs(kinds[kind] - expected[kind]) < 5 * math.sqrt(expected[kind]) for kind in kinds)
    angles = {change.arguments[0] for each in found for change in changes_of(each) if change.name == "rotate"}
    right = {4.5 * step for step in range(31)} if num_operations == 1 else {9.0}  # the ninth of 30 steps of 1 degree
    assert {abs(round(angle, 3)) for angle in angles} <= right
    assert min(angles) < 0 < max(angles)


@pytest.mark.parametrize("version", [v1, v2])
@pytest.mark.parametrize("policy", list(autoaugment.AutoAugmentPolicy))
def test_auto_augment(version: Any, policy: Any) -> None:
    transform = version.AutoAugment(policy)
    found = Counter(len(each) for each in decided(transform, 1000))
    policies = getattr(transform, "policies", None) or transform._policies
    both = np.mean([p * q for (_, p, _), (_, q, _) in policies])
    assert abs(found[2] / 1000 - both) < 0.08
    assert set(found) <= {0, 1, 2}


CHAINS: dict[str, list[Any]] = {
    "reference": [v1.RandomResizedCrop(48), v1.RandomHorizontalFlip(), v1.TrivialAugmentWide()],
    "auto": [v1.Resize((40, 50)), v1.AutoAugment()],
    "jitter": [v2.RandomResizedCrop(48), v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.RandomHorizontalFlip(1.0)],
    "contrastive": [
        v1.RandomResizedCrop(48),
        v1.RandomHorizontalFlip(),
        v1.RandomApply([v1.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
        v1.RandomGrayscale(0.2),
    ],
    "moved": [
        v1.Resize((40, 50)),
        v1.RandomVerticalFlip(),
        v1.RandomRotation(30),
        v2.RandomAffine(20, (0.2, 0.1), (0.7, 1.4), (-10, 10, -5, 5), fill=9),
        v1.RandomVerticalFlip(),
    ],
    "distorted": [
        v1.Resize((40, 50)),
        v1.RandomPerspective(p=0.9),
        v2.RandomPhotometricDistort(p=0.8),
        v2.RandomPerspective(0.8, fill=(9, 8, 7), interpolation=InterpolationMode.BICUBIC),
        v1.RandomRotation(40, v1.InterpolationMode.BILINEAR, fill=[5.0]),
        v2.RandAugment(interpolation=v2.InterpolationMode.BILINEAR),
    ],
    "others": [
        v1.CenterCrop(32),
        v1.RandomOrder([v1.RandomPosterize(3), v1.RandomSolarize(100), v1.RandomInvert()]),
        v1.RandomChoice([v1.RandomAutocontrast(1.0), v1.RandomEqualize(1.0), v1.RandomAdjustSharpness(2.0, 1.0)]),
        v1.Grayscale(3),
    ],
}
FINISHED = [v1.ToTensor(), v1.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.25)), v1.RandomErasing(value=(0.5, -1.0, 2.0))]


@needs_numba
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
@pytest.mark.parametrize("finished", [[v1.PILToTensor()], FINISHED], ids=["bytes", "floats"])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_compiled_as_torchvision_makes_them(
    name: str, finished: list[Any], layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(v1.Compose([*CHAINS[name], *finished]))
    assert plan.is_whole
    assert plan.size is not None
    code = compiled_code()
    assert code is not None
    data = jpeg(PHOTO)
    draws = uniforms(1, 0, np.arange(12), plan.num_draws)
    actions = [decide(plan.steps, (PHOTO.height, PHOTO.width), each.tolist()) for each in draws]
    rows = torch.empty((12, 3, *plan.size), dtype=plan.pointwise.dtype, memory_format=layout)
    renderer = RowRenderer(*plan.size, plan.pointwise, "exact", code)
    assert renderer.make([(open_encoded(data), each) for each in actions], rows) == []
    single = [render(open_encoded(data), each, "exact") for each in actions]
    monkeypatch.setattr(rendering, "compiled_for", lambda *_, **__: None)
    for row, image, each in zip(rows, single, actions, strict=True):
        right = render(open_encoded(data), each, "exact")  # torchvision's functions, of one image
        assert torch.equal(image, right)
        if plan.pointwise.operations is not None:
            right = plan.pointwise.apply_(right.to(torch.float32).contiguous())
        for box in each:
            if isinstance(box, Erase) and plan.erases:
                erase(row.numpy(), each)
                values = torch.tensor(box.values)[:, None, None]
                right = v1.functional.erase(right, box.top, box.left, box.height, box.width, values)
        assert torch.equal(row, right)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RandomRotation", {"degrees": (-20, 50)}),
        ("RandomAffine", {"degrees": (-20, 50), "translate": (0.1, 0.2), "scale": (0.8, 1.1), "shear": 15}),
        ("RandomAffine", {"degrees": 0, "shear": (1, 2, 3, 4), "interpolation": InterpolationMode.BICUBIC}),
        ("RandomPerspective", {"distortion_scale": 0.3, "p": 0.2, "fill": [1.0, 2.0, 3.0]}),
        ("Pad", {"padding": (1, 2, 3, 4), "fill": (7, 0, 255)}),
        ("RandomVerticalFlip", {"p": 0.3}),
    ],
)
def test_both_versions_are_read_alike(name: str, options: dict[str, Any]) -> None:
    """Those of v2 are compared with v2 in test_joint.py."""
    first, second = (getattr(version, name)(**options) for version in (v1, v2))
    assert len(read_plan(first).steps) == len(read_plan(second).steps) == 1
    assert decided(first, 20) == decided(second, 20)


def test_identities_and_pictures_of_tensors() -> None:
    parts = [v2.Identity(), torch.nn.Identity(), v1.PILToTensor(), v1.ToPILImage(), v2.ToImage(), v2.ToPILImage("RGB")]
    transform = v1.Compose([*parts, v1.RandomInvert(1), v1.PILToTensor()])
    (actions,) = decided(transform, 1)
    assert torch.equal(render(ArrayFrame(np.asarray(PHOTO)), actions, "exact"), transform(PHOTO))


def test_a_perspective_has_torchvisions_coefficients() -> None:
    rng = np.random.default_rng(4)
    starts = [[0, 0], [99, 0], [99, 79], [0, 79]]
    for _ in range(200):
        ends = (np.array(starts) + rng.integers(-30, 30, (4, 2))).tolist()
        assert coefficients(starts, ends) == v1.functional._get_perspective_coeffs(starts, ends)


@pytest.mark.parametrize("version", [v1, v2])
def test_erasing(version: Any) -> None:
    transform = version.Compose([v1.Resize((80, 60)), v1.ToTensor(), version.RandomErasing(0.4, (0.1, 0.2), (0.5, 2))])
    boxes = [each[1:] for each in decided(transform, 2000)]
    assert abs(sum(map(len, boxes)) / 2000 - 0.4) < 0.05
    for box in itertools.chain.from_iterable(boxes):
        assert isinstance(box, Erase)
        assert 0.08 < box.height * box.width / 4800 < 0.22
        assert 0.45 < box.height / box.width < 2.2
        assert box.top + box.height <= 80
        assert box.left + box.width <= 60
        assert box.values == (0, 0, 0)


def test_an_operation_of_a_later_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    blurred = {"Blur": (lambda num_bins, height, width: torch.linspace(0.0, 3.0, num_bins), False)}
    monkeypatch.setattr(v2.TrivialAugmentWide, "_AUGMENTATION_SPACE", blurred)
    assert read_plan(v2.TrivialAugmentWide()).reason == "this torchvision has another table of its magnitudes"


UNKNOWN = {
    "noise": v1.Compose([v1.Resize((9, 9)), v1.ToTensor(), v1.RandomErasing(value="random")]),
    "one channel": v1.Grayscale(),
    "box filter": v1.RandomRotation(30, interpolation=InterpolationMode.BOX),
    "tensors padded with fractions": v2.Compose([v2.ToImage(), v2.Pad(4, fill=1.5)]),
    "erased": v1.Compose([v1.Resize((9, 9)), v1.ToTensor(), v1.RandomErasing(), v1.RandomHorizontalFlip()]),
    "expanded": v1.RandomRotation(30, expand=True),
    "no color": v1.RandomAffine(30, fill=300),
    "two channels": v2.RandomPerspective(fill=[1, 2]),
    "padded with the edge": v1.Pad(4, padding_mode="edge"),
    "tensors padded with a color": v1.Compose([v1.PILToTensor(), v1.Pad(4, fill=(1, 2, 3))]),
    "crops with boxes": v2.RandomIoUCrop(),
    "to a picture of another mode": v1.Compose([v1.PILToTensor(), v1.ToPILImage("HSV")]),
    "unknown inside": v1.RandomApply([v1.ColorJitter(0.3), lambda image: image]),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_left_to_torchvision(name: str) -> None:
    plan = read_plan(UNKNOWN[name])
    assert len(plan.rest) >= 1
    assert plan.reason


@needs_numba
def test_geometry_behind_changes_is_left_to_torchvision() -> None:
    plan = read_plan(v1.Compose([v1.ColorJitter(0.3), v1.Resize((20, 30)), v1.PILToTensor()]))
    assert plan.is_whole
    code = compiled_code()
    assert code is not None
    actions = decide(plan.steps, (40, 50), [0.3] * plan.num_draws)
    rows = torch.empty((1, 3, 20, 30), dtype=torch.uint8)
    frame = ArrayFrame(np.asarray(PHOTO)[:40, :50])
    assert RowRenderer(20, 30, None, "exact", code).make([(frame, actions)], rows) == [0]
    (jitter,) = changes_of(actions[:1])
    right = on_picture(jitter, PHOTO.crop((0, 0, 50, 40))).resize((30, 20), Image.Resampling.BILINEAR)
    assert np.array_equal(render(frame, actions, "exact").permute(1, 2, 0), np.asarray(right))
    assert not any(isinstance(action, Flip) for action in actions)
