"""Fused transforms: torchvision's own result to the bit, for the same crop and flip; others stay as they are."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from scipy import stats
from torch import nn
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, v2

from recordzoo.images.decode import decode_rgb, open_encoded, open_raw
from recordzoo.loader import render as rendering
from recordzoo.loader.compiled import compiled_code
from recordzoo.loader.making import uniforms
from recordzoo.loader.plan import Action, Erase, Plan, decide, size_after
from recordzoo.loader.render import Precision, RowRenderer, render, to_picture
from recordzoo.loader.samples import known_frame, with_values
from recordzoo.loader.table import as_given, read_plan
from tests.batching import MEAN, STD, assert_same
from tests.fakes.pictures import encoded, jpeg, picture

RNG = np.random.default_rng(5)
PHOTO = picture(RNG, 203, 151, 0.6, (40, 30, 100, 80))
IMAGES = {
    "wide": jpeg(PHOTO),
    "tall": encoded(picture(RNG, 61, 140, 0.1, (5, 9, 40, 90)), "JPEG", subsampling=0),
    "square": encoded(picture(RNG, 96, 96), "JPEG", quality=95),
    "gray": jpeg(PHOTO.convert("L")),
    "progressive": encoded(PHOTO, "JPEG", progressive=True),
    "palette": encoded(PHOTO.convert("P"), "PNG"),
    "dot": jpeg(PHOTO.crop((50, 50, 51, 51))),
}
FLOAT = torch.float32

pytestmark = pytest.mark.usefixtures("one_thread")

# Any, here and below: transforms are callables, results tensors or PIL images.


def drawn(plan: Plan, seed: int) -> list[float]:
    return uniforms(seed, 0, np.array([3]), plan.num_draws)[0].tolist()


def in_rows(data: bytes, actions: list[Action], size: tuple[int, int], precision: Precision) -> Iterator[torch.Tensor]:
    """Make an image as a row of a batch, in both layouts, as far as that is done without `render`."""
    found = compiled_code()
    if found is None:
        return  # without numba everything is left to `render`
    renderer = RowRenderer(*size, None, precision, found)
    for layout in (torch.contiguous_format, torch.channels_last):
        rows = torch.empty((1, 3, *size), dtype=torch.uint8, memory_format=layout)
        if not renderer.make([(open_encoded(data), actions)], rows):
            yield rows[0]


def ours(transform: Any, data: bytes, seed: int = 0, precision: Precision = "exact") -> Any:
    """What a loader makes of an image."""
    plan, frame = read_plan(transform), open_encoded(data)
    actions = decide(plan.steps, (frame.height, frame.width), drawn(plan, seed))
    image = render(frame, actions, precision)
    if precision == "exact":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rendering, "compiled_for", lambda *_, **__: None)
            assert torch.equal(render(open_encoded(data), actions, precision), image)  # and without compiled code
    kept = [each for each in actions if not isinstance(each, Erase)]  # `render` erases nothing
    for row in in_rows(data, kept, tuple(image.shape[1:]), precision):
        assert torch.equal(row, image)
    if not plan.is_tensor:
        sample: Any = to_picture(image)
    elif plan.pointwise.operations is None:
        sample = as_given(plan, image)
    else:
        sample = as_given(plan, plan.pointwise.apply_(image.to(FLOAT)))
    for each in plan.rest:
        sample = each(sample)
    return sample if plan.ending is None else ended(plan, plan.ending, sample)


def ended(plan: Plan, ending: Plan, sample: Any) -> Any:
    """Apply a plan's ending to what the unknown transforms returned, as a loader does."""
    frame = known_frame(plan, sample)
    if frame is None:
        return v1.Compose(ending.fused)(sample)
    image = render(frame, decide(ending.steps, (frame.height, frame.width), []), "exact").contiguous()
    return as_given(ending, with_values(ending, image))


class Told:
    """torchvision's transforms do what a loader decided, instead of what they draw."""

    def __init__(self, plan: Plan, size: tuple[int, int], seed: int) -> None:
        self.crops: list[dict[str, Any]] = []
        self.flips: list[bool] = []
        draws = drawn(plan, seed)
        for step in plan.steps:
            actions, params = step.decide_with(None, size, draws[: step.num_draws])
            draws, size = draws[step.num_draws :], size_after(actions, size)
            if step.num_draws == 1:
                self.flips.append(bool(actions))
            elif params is not None and "top" in params:
                self.crops.append(params)

    def params(self, *_: object) -> tuple[int, ...]:
        crop = self.crops.pop(0)
        return tuple(crop[name] for name in ("top", "left", "height", "width"))

    def rand(self, *_: object) -> torch.Tensor:
        return torch.tensor([0.0 if self.flips.pop(0) else 1 - 2**-24])


def theirs(transform: Any, data: bytes, seed: int = 0) -> Any:
    """What torchvision makes of it, for the same crop and flip."""
    image = decode_rgb(data)
    told = Told(read_plan(transform), (image.height, image.width), seed)
    with pytest.MonkeyPatch.context() as patch:
        for kind in (v1.RandomResizedCrop, v1.RandomCrop):
            patch.setattr(kind, "get_params", staticmethod(told.params))
        for kind in (v2.RandomResizedCrop, v2.RandomCrop):
            patch.setattr(kind, "make_params", lambda self, inputs: told.crops.pop(0))
        patch.setattr(torch, "rand", told.rand)
        made = transform(image)
    assert (told.crops, told.flips) == ([], [])
    return made


def check(transform: Any, images: Sequence[str] = tuple(IMAGES), seeds: Sequence[int] = range(2)) -> None:
    plan = read_plan(transform)
    assert plan.rest == (), plan.reason
    for name in images:
        for seed in seeds if plan.num_draws else [0]:
            try:
                right = theirs(transform, IMAGES[name], seed)
            except Exception as err:  # noqa: BLE001 - whatever torchvision raises
                with pytest.raises(type(err)):
                    ours(transform, IMAGES[name], seed)
            else:
                assert_same(ours(transform, IMAGES[name], seed), right)


VERSIONS = pytest.mark.parametrize("version", [v1, v2], ids=["v1", "v2"])
MODES = tuple(map(InterpolationMode, ("bilinear", "bicubic", "nearest", "nearest-exact")))
PICTURES_ONLY = tuple(map(InterpolationMode, ("box", "hamming", "lanczos")))
# Name, size, options. Every row is tried in both versions, for pictures and for tensors.
GEOMETRY: list[tuple[str, Any, dict[str, Any]]] = [
    *(("Resize", size, {}) for size in (32, (32,), (40, 56), 61, 200, (151, 203), [1, 1], (300, 20))),
    *(("Resize", size, {"max_size": most}) for size, most in ((32, 40), (32, 33), (50, 400), (140, 141))),
    *(
        (name, size, {"interpolation": interpolation, "antialias": antialias})
        for interpolation in MODES
        for antialias in (True, False, None)
        for name, size in (("Resize", (50, 60)), ("RandomResizedCrop", 40))
    ),
    *(("Resize", 50, {"interpolation": name}) for name in (2, 0, 3, "bilinear", "bicubic")),  # as Pillow numbers them
    # Odd and even differences, and larger than the image: black borders.
    *(("CenterCrop", size, {}) for size in (24, (31, 50), (140, 61), (96, 96), 1, (400, 30), (153, 206))),
    *(("RandomCrop", size, {}) for size in (24, (31, 50), (96, 96), 500)),
    ("RandomCrop", 32, {"padding": 4}),
    ("RandomCrop", 32, {"padding": [5], "fill": 7}),
    ("RandomCrop", (90, 30), {"padding": (7, 20)}),
    ("RandomCrop", 64, {"padding": [1, 2, 30, 40], "fill": (1, 2, 250)}),
    ("RandomCrop", 100, {"padding": 300}),
    ("RandomCrop", 10, {"padding": -5}),
    ("RandomCrop", (90, 160), {"pad_if_needed": True}),
    ("RandomCrop", (70, 30), {"pad_if_needed": True, "padding": (0, 1, 2, 3), "fill": 9}),
    ("RandomCrop", 300, {"pad_if_needed": True, "fill": [4, 5, 6]}),
    *(("RandomResizedCrop", size, {}) for size in (48, (40, 56), 224)),
    ("RandomResizedCrop", 32, {"scale": (0.001, 0.01)}),
    ("RandomResizedCrop", 32, {"scale": (1.0, 1.0), "ratio": (1.0, 1.0)}),
    ("RandomResizedCrop", 32, {"scale": (5.0, 9.0)}),
    ("RandomResizedCrop", 32, {"scale": (5.0, 9.0), "ratio": (5.0, 9.0)}),
    *(("RandomHorizontalFlip", probability, {}) for probability in (0, 0.0, 0.5, 1.0, 1)),
]


@VERSIONS
@pytest.mark.parametrize(("name", "size", "options"), GEOMETRY, ids=repr)
def test_geometry(version: Any, name: str, size: Any, options: dict[str, Any]) -> None:
    transform = getattr(version, name)(size, **options)
    check(transform)
    if version is v1 and not isinstance(options.get("fill", 0), int):  # of which it makes tensors in no way
        return
    chains = [[transform, version.PILToTensor()], [version.PILToTensor(), transform]]
    if version is v2:
        chains += [[v2.ToImage(), transform], [v2.ToImage(), v2.ToPureTensor(), transform]]
    for chain in chains:
        check(version.Compose(chain), ("wide", "square", "dot"))


TO_VALUES = {
    "ToTensor": [v1.ToTensor()],
    "ConvertImageDtype": [v1.PILToTensor(), v1.ConvertImageDtype(FLOAT)],
    "Normalize": [v1.ToTensor(), v1.Normalize(MEAN, STD)],
    "Normalize in place": [v1.ToTensor(), v1.Normalize(MEAN, STD, inplace=True)],
    "Normalize twice": [v1.ToTensor(), v1.Normalize(MEAN, STD), v1.Normalize([0.1], [3])],
    "Normalize of tensors": [v1.ToTensor(), v1.Normalize(torch.tensor(MEAN), np.array(STD))],
    "Normalize by one number": [v1.ToTensor(), v1.Normalize(0.5, 0.25)],
    "flip at last": [v1.ToTensor(), v1.Normalize(MEAN, STD), v1.RandomHorizontalFlip(1)],
    "v2 ToPureTensor": [v2.ToImage(), v2.ToPureTensor()],
    "v2 ToDtype": [v2.ToImage(), v2.ToDtype(FLOAT)],
    "v2 ToDtype scaled, pure": [v2.PILToTensor(), v2.ToDtype(FLOAT, scale=True)],
    "v2 ToDtype, then scaled": [v2.ToImage(), v2.ToDtype(FLOAT), v2.ToDtype(FLOAT, scale=True)],
    "v2 ToDtype to uint8": [v2.ToImage(), v2.ToDtype(torch.uint8, scale=True)],
    "v2 Normalize, not scaled": [v2.PILToTensor(), v2.ToDtype(FLOAT), v2.Normalize([123.0], [58.0])],
    "v2 flip at last": [v2.ToImage(), v2.ToDtype(FLOAT), v2.RandomHorizontalFlip(0.5), v2.Normalize(MEAN, STD)],
    "v1 then v2": [v1.ToTensor(), v2.ToImage(), v2.Normalize(MEAN, STD)],
    "v2 then v1, pure": [v2.PILToTensor(), v1.ConvertImageDtype(FLOAT), v2.Normalize(MEAN, STD)],
}


def test_interpolations_of_pictures() -> None:
    for version in (v1, v2):
        for interpolation in PICTURES_ONLY:
            check(version.Resize((50, 60), interpolation))
            check(version.RandomResizedCrop(40, interpolation=interpolation))


@pytest.mark.parametrize("name", TO_VALUES)
def test_values(name: str) -> None:
    check(v1.Compose(TO_VALUES[name]))
    check(v2.Compose([v2.CenterCrop(50), *TO_VALUES[name]]))
    check(v1.Compose([v1.RandomResizedCrop(33), v1.RandomHorizontalFlip(), v1.Compose(TO_VALUES[name])]))


geometric = st.lists(
    st.sampled_from(
        [
            v1.Resize(40),
            v2.Resize((30, 70)),
            v1.CenterCrop(45),
            v2.CenterCrop((90, 20)),
            v1.RandomCrop(20, padding=(3, 9)),
            v2.RandomCrop(25, padding=25),
            v1.RandomResizedCrop(50),
            v2.RandomResizedCrop((25, 35), interpolation=InterpolationMode.BICUBIC),
            v1.RandomHorizontalFlip(),
            v2.RandomHorizontalFlip(0.3),
        ]
    ),
    max_size=4,
)
makers = st.sampled_from(
    [[], [v1.PILToTensor()], [v2.PILToTensor()], [v2.ToImage()], [v2.ToImage(), v2.ToPureTensor()]]
)
endings = st.sampled_from([[], *TO_VALUES.values()])


@given(geometric, makers, geometric, endings, st.sampled_from(sorted(IMAGES)), st.integers(0, 10**6))
def test_any_chain(
    before: list[Any], maker: list[Any], after: list[Any], ending: list[Any], name: str, seed: int
) -> None:
    """Whether all of it is fused or not, the result is torchvision's."""
    transform = v1.Compose([*before, *maker, *after, *ending])
    plan = read_plan(transform)
    behind = [*plan.rest, *(plan.ending.fused if plan.ending else ())]
    assume(not any("Random" in type(each).__name__ for each in behind))
    try:
        right = theirs(transform, IMAGES[name], seed)
    except (ValueError, TypeError) as err:
        with pytest.raises(type(err)):
            ours(transform, IMAGES[name], seed)
    else:
        assert_same(ours(transform, IMAGES[name], seed), right)


# What is not known


class OwnFlip(v1.RandomHorizontalFlip):
    pass


def negative(image: Any) -> Any:
    return image


def changed(transform: Any, name: str, method: Any) -> Any:
    """Replace a method of one transform; its class stays."""
    setattr(transform, name, method)
    return transform


def hooked(transform: nn.Module) -> nn.Module:
    """Let a hook turn the image upside down."""
    transform.register_forward_hook(lambda _, inputs, image: image.rotate(180))
    return transform


TENSOR = v1.ToTensor()
NO_CROP = {"needs_crop": False, "needs_pad": False}
NOT_KNOWN = {
    "RandomInvert of a tensor": ([v1.PILToTensor(), v1.RandomInvert()], 1, "a tensor by then"),
    "function": ([v1.CenterCrop(9), negative, v1.CenterCrop(3)], 1, "is not one of those known"),
    "subclass": ([OwnFlip()], 0, "OwnFlip is not one"),
    "RandomApply": ([v1.RandomApply([v1.CenterCrop(3)])], 0, "CenterCrop in it"),
    "reflect": ([v1.RandomCrop(9, padding=3, padding_mode="reflect")], 0, "its padding_mode is reflect"),
    "Normalize on uint8": ([v1.PILToTensor(), v1.Normalize(MEAN, STD)], 1, "not float by then"),
    "ToTensor twice": ([TENSOR, TENSOR], 1, "a tensor already"),
    "Resize of floats": ([TENSOR, v1.Resize(9)], 1, "float by then"),
    "ToDtype of a picture": ([v2.ToDtype(FLOAT)], 0, "no tensor by then"),
    "float64": ([v1.PILToTensor(), v1.ConvertImageDtype(torch.float64)], 1, "torch.float64"),
    "ToDtype by type": ([v2.ToImage(), v2.ToDtype({tv_tensors.Image: FLOAT, "others": None})], 1, "its dtype is"),
    "std of zero": ([TENSOR, v1.Normalize(MEAN, (1, 0, 1))], 1, "std has a zero"),
    "four channels": ([TENSOR, v1.Normalize([0.5] * 4, [1] * 4)], 1, "three channels"),
    "no size but the longest side": ([v2.Resize(None, max_size=50)], 0, "no size"),
    "max_size of a pair": ([v2.Resize((50, 40), max_size=60)], 0, "contradict"),
    "picture of a picture": ([v1.ToPILImage()], 0, "no tensor of bytes"),
    "behind": ([TENSOR, v1.RandomErasing(1), v1.Normalize(MEAN, STD), v1.CenterCrop(9)], 2, "erased by then"),
    "v1 on tv_tensors": ([v2.ToImage(), v1.CenterCrop(9), v1.Lambda(type)], 1, "tv_tensors"),
    "replaced forward": ([changed(v1.Resize(9), "forward", lambda image: image.rotate(180))], 0, "its forward was"),
    "replaced get_params": ([changed(v1.RandomCrop(9), "get_params", lambda *_: (1, 2, 9, 9))], 0, "its get_params"),
    "replaced make_params": ([changed(v2.RandomCrop(9), "make_params", lambda _: NO_CROP)], 0, "its make_params was"),
    "hook": ([hooked(v1.CenterCrop(9))], 0, "it has a hook"),
    "hook in a container": ([v1.RandomApply([hooked(v1.RandomInvert(1))], p=1)], 0, "RandomInvert in it"),
}


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_not_known(name: str) -> None:
    """It and all behind it stay, each in its place, and do what they do in torchvision, errors included."""
    transforms, first, reason = NOT_KNOWN[name]
    transform = v1.Compose(transforms)
    plan = read_plan(transform)
    left = [each for part in transforms for each in (part.transforms if type(part) is v1.Compose else [part])][first:]
    ending = plan.ending.fused if plan.ending else ()
    assert [id(each) for each in (*plan.rest, *ending)] == [id(each) for each in left]
    assert len(plan.fused) == first
    assert reason in plan.reason

    def result(work: Callable[[], Any]) -> Any:
        torch.manual_seed(5)
        try:
            return work()
        except Exception as err:  # noqa: BLE001 - whatever torchvision raises
            return type(err), str(err)

    found = result(lambda: ours(transform, IMAGES["wide"]))
    right = result(lambda: transform(decode_rgb(IMAGES["wide"])))
    if isinstance(right, tuple | type):
        assert found == right
    else:
        assert_same(found, right)


def test_other_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert "default dtype" in read_plan(v1.ToTensor()).reason
        assert_same(ours(v1.ToTensor(), IMAGES["wide"]), theirs(v1.ToTensor(), IMAGES["wide"]))
    finally:
        torch.set_default_dtype(torch.float32)


@VERSIONS
@pytest.mark.parametrize("options", [{"scale": (1.0, 0.1)}, {"ratio": (2.0, 0.5)}, {"scale": (-1.0, -0.5)}])
def test_ranges_that_are_none(version: Any, options: dict[str, Any]) -> None:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        transform = version.RandomResizedCrop(9, **options)
    with pytest.raises((RuntimeError, ValueError)) as raised:
        transform(decode_rgb(IMAGES["wide"]))
    with pytest.raises(raised.type):
        ours(transform, IMAGES["wide"])


def test_stored_pixels_are_never_written_to() -> None:
    pixels = np.random.default_rng(6).integers(0, 256, (40, 30, 3), np.uint8)
    pixels.flags.writeable = False
    before = pixels.copy()
    for transform in (v1.PILToTensor(), v1.Compose([v1.CenterCrop(20), v1.PILToTensor()]), v1.CenterCrop((40, 30))):
        made = render(open_raw(pixels), decide(read_plan(transform).steps, (40, 30), []), "exact")
        made.zero_()
        assert np.array_equal(pixels, before)


# Fast


def psnr(found: torch.Tensor, right: torch.Tensor) -> float:
    return 10 * float(torch.log10(255**2 / ((found.float() - right.float()) ** 2).mean().clamp_min(1e-9)))


def smooth(width: int, height: int, seed: int) -> bytes:
    coarse = np.random.default_rng(seed).integers(40, 216, (4, 4, 3), np.uint8)
    return encoded(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), "JPEG", quality=95)


FAST = [
    v1.RandomResizedCrop(64),
    v2.RandomResizedCrop(64, interpolation=InterpolationMode.BICUBIC),
    v1.RandomResizedCrop((150, 170)),
    v1.Resize((60, 40)),
    v2.Compose([v2.ToImage(), v2.RandomResizedCrop(50), v2.RandomHorizontalFlip()]),
    v2.Compose([v2.Resize(70), v2.CenterCrop(64)]),
]


@pytest.mark.parametrize("transform", FAST)
def test_fast_is_near(transform: Any) -> None:
    transform = v2.Compose([transform, v2.PILToTensor()])
    for seed in range(12):
        data = smooth(500 - 17 * seed, 260 + 31 * seed, seed)
        found, right = ours(transform, data, seed, "fast"), theirs(transform, data, seed)
        assert found.dtype is torch.uint8
        assert found.shape == right.shape
        assert psnr(found, right) > 35


@pytest.mark.parametrize(("size", "denominator"), [(100, 8), (300, 2), (500, 1)])
def test_fast_decodes_at_a_fraction_of_the_size(size: int, denominator: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    frame = open_encoded(smooth(900, 800, 1))
    pixels = frame.pixels
    monkeypatch.setattr(frame, "pixels", lambda box, denominator: asked.append(denominator) or pixels(box, denominator))
    for precision in ("exact", "fast"):
        render(frame, decide(read_plan(v1.Resize(size)).steps, (800, 900), []), precision)
    assert asked == [1, denominator]


@pytest.mark.parametrize(
    "transform",
    [v1.CenterCrop(60), v1.RandomCrop(50, padding=9), v1.Compose([]), v1.Resize(50, InterpolationMode.NEAREST)],
)
def test_fast_is_exact_where_nothing_is_averaged(transform: Any) -> None:
    for name, data in IMAGES.items():
        if name != "dot":
            assert_same(ours(transform, data, 1, "fast"), theirs(transform, data, 1))


SIZE = (151, 203)
DRAWS = 4000


def decided(transform: Any) -> Iterator[list[Action]]:
    plan = read_plan(transform)
    for row in uniforms(1, 2, np.arange(DRAWS), plan.num_draws).tolist():
        yield decide(plan.steps, SIZE, row)


def test_the_numbers_of_steps_are_their_own() -> None:
    """Two flips, or a crop and a flip, do not go together."""
    twice = [len(actions) for actions in decided(v1.Compose([v1.RandomHorizontalFlip(), v1.RandomHorizontalFlip()]))]
    assert stats.chisquare(np.bincount(twice, minlength=3), np.array([1, 2, 1]) * DRAWS / 4).pvalue > 1e-3
    tops = {False: [], True: []}
    for crop, *flip in decided(v1.Compose([v1.RandomCrop(50), v1.RandomHorizontalFlip()])):
        tops[bool(flip)].append(crop.top)  # type: ignore[union-attr]
    assert stats.ks_2samp(tops[False], tops[True]).pvalue > 1e-3
