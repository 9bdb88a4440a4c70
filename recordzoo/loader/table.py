"""The table of known transforms, and the reading of a dataset's transforms with it.

A row of `OPS` is an operation: its transforms, torchvision's function, and the numbers for compiled code. Before it
stand transforms that choose other transforms: from their own list, or from torchvision's tables.
"""

import functools
import itertools
import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn.modules import module
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, functional, v2
from typing_extensions import override

from recordzoo.loader import geometry
from recordzoo.loader.frameworks import as_torchvision
from recordzoo.loader.geometry import of_pictures, sometimes
from recordzoo.loader.plan import (
    Action,
    Draws,
    PixelOp,
    Plan,
    Size,
    Step,
    StepReader,
    Transform,
    UnknownTransformError,
    Views,
    called_of,
    functions,
    is_v2,
    views_of,
    with_step,
)


@dataclass(frozen=True)
class SomeOfStep(Step):
    """Some of several steps.

    Attributes:
        steps: The steps of each transform.
        choose: Random numbers -> the indices of the chosen transforms, in order.
        num_choosing: Random numbers needed by `choose`.
    """

    steps: Sequence[Sequence[Step]]
    choose: Callable[[Draws], Sequence[int]]
    num_choosing: int

    keeps_size = True
    moves = None

    @functools.cached_property
    def num_draws(self) -> int:  # type: ignore[override]  # computed once
        """The draws for choosing, then those of all steps."""
        return self.num_choosing + sum(step.num_draws for steps in self.steps for step in steps)

    @property
    def is_exact(self) -> bool:  # type: ignore[override]  # read-only
        """Whether all steps are exact."""
        return all(step.is_exact for steps in self.steps for step in steps)

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        decided: list[list[Action]] = []
        start = self.num_choosing
        for steps in self.steps:
            found: list[Action] = []
            for step in steps:
                found += step.actions(size, draws[start : start + step.num_draws])
                start += step.num_draws
            decided.append(found)
        return [action for number in self.choose(draws[: self.num_choosing]) for action in decided[number]]


Inner = Sequence[Sequence[Step]]
"""The steps of each transform in a container."""

ContainerReader = Callable[[Any, Inner], Step]


def random_apply(transform: Any, inner: Inner) -> Step:
    """Read `RandomApply`."""
    probability = float(transform.p)
    together = [step for steps in inner for step in steps]
    return SomeOfStep([together], lambda draws: [0] if draws[0] < probability else [], 1)


def random_choice(transform: Any, inner: Inner) -> Step:
    """Read `RandomChoice`."""
    shares = list(transform.p or [1] * len(inner))
    bounds = [bound / sum(shares) for bound in itertools.accumulate(shares)]
    return SomeOfStep(inner, lambda draws: [min(bisect(bounds, draws[0]), len(inner) - 1)], 1)


def random_order(transform: Any, inner: Inner) -> Step:
    """Read `RandomOrder`."""
    return SomeOfStep(inner, lambda draws: sorted(range(len(inner)), key=draws.__getitem__), len(inner))


Magnitudes = Callable[[Size], Mapping[str, tuple[Sequence[float], bool]]]
"""For a size, the operations of an automatic augmentation: magnitudes (maybe none), and whether they get a sign."""


@dataclass(frozen=True)
class AutomaticStep(Step):
    """`TrivialAugmentWide` and `RandAugment`: operations drawn from all of them.

    Attributes:
        magnitudes: The operations.
        num_operations: Number of operations drawn.
        magnitude: The index of each operation's magnitude; None: drawn at random.
        fill: The color outside of a moved image.
    """

    magnitudes: Magnitudes
    num_operations: int
    magnitude: int | None
    fill: Any

    keeps_size = True
    moves = None

    @property
    def num_draws(self) -> int:  # type: ignore[override]  # it depends on the transform
        """Draws for operation, magnitude and sign of each."""
        return 3 * self.num_operations

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        space = self.magnitudes(size)
        names = list(space)
        for start in range(0, self.num_draws, 3):
            name = names[int(draws[start] * len(names))]
            place = self.magnitude if self.magnitude is not None else int(draws[start + 1] * len(space[name][0]))
            found += named_changes(name, _signed(space[name], place, draws[start + 2]), self.fill)
        return found


@dataclass(frozen=True)
class PolicyStep(Step):
    """`AutoAugment`: one of many pairs of operations.

    Attributes:
        magnitudes: The operations.
        policies: Pairs of (name, probability, index of the magnitude or None).
        fill: The color outside of a moved image.
    """

    magnitudes: Magnitudes
    policies: Sequence[Sequence[tuple[str, float, int | None]]]
    fill: Any

    num_draws = 5
    keeps_size = True
    moves = None

    @override
    def actions(self, size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        space = self.magnitudes(size)
        pair = self.policies[int(draws[0] * len(self.policies))]
        for number, (name, probability, place) in enumerate(pair):
            if draws[1 + number] > probability:
                continue
            found += named_changes(name, _signed(space[name], place, draws[3 + number]), self.fill)
        return found


def _signed(row: tuple[Sequence[float], bool], place: int | None, draw: float) -> float:
    """Return a magnitude of an operation's row, with a random sign if it gets one; 0 if it has none."""
    values, is_signed = row
    magnitude = values[place] if place is not None and values else 0.0
    return -magnitude if is_signed and draw < 0.5 else magnitude


def named_changes(name: str, magnitude: float, fill: Any) -> list[PixelOp]:
    """Return the changes made by an operation of torchvision's automatic augmentations.

    Args:
        magnitude: The signed magnitude; for "Solarize" a threshold of 0 to 255.
    """
    angle = math.degrees(math.atan(magnitude))
    match name:
        case "Identity":
            return []
        case "ShearX":
            return [PixelOp("affine", (0.0, [0, 0], 1.0, [angle, 0.0], fill, [0, 0]))]
        case "ShearY":
            return [PixelOp("affine", (0.0, [0, 0], 1.0, [0.0, angle], fill, [0, 0]))]
        case "TranslateX":
            return [PixelOp("affine", (0.0, [int(magnitude), 0], 1.0, [0.0, 0.0], fill, None))]
        case "TranslateY":
            return [PixelOp("affine", (0.0, [0, int(magnitude)], 1.0, [0.0, 0.0], fill, None))]
        case "Rotate":
            return [PixelOp("rotate", (magnitude, fill, None))]
        case "Posterize":
            return [PixelOp("posterize", (int(magnitude),))]
        case "Solarize":
            return [PixelOp("solarize", (magnitude,))]
        case "AutoContrast" | "Equalize" | "Invert":
            return [PixelOp(name.lower())]
    return [PixelOp(_FACTORS[name], (1.0 + magnitude,))]


_FACTORS = {"Brightness": "brightness", "Color": "saturation", "Contrast": "contrast", "Sharpness": "sharpness"}


@of_pictures
def trivial_augment(transform: Any) -> Step:
    """Read `TrivialAugmentWide`."""
    return AutomaticStep(_magnitudes(transform, transform.num_magnitude_bins), 1, None, _fill(transform))


@of_pictures
def rand_augment(transform: Any) -> Step:
    """Read `RandAugment`."""
    magnitudes = _magnitudes(transform, transform.num_magnitude_bins)
    return AutomaticStep(magnitudes, transform.num_ops, transform.magnitude, _fill(transform))


@of_pictures
def auto_augment(transform: Any) -> Step:
    """Read `AutoAugment`."""
    policies = getattr(transform, "policies", None) or getattr(transform, "_policies", None)
    if policies is None:
        raise UnknownTransformError("this torchvision keeps its policies elsewhere")
    return PolicyStep(_magnitudes(transform, 10), policies, _fill(transform))


@of_pictures
def random_affine(transform: Any) -> Step:
    """Read `RandomAffine`."""
    shear = list(transform.shear or ()) + [0.0] * 4
    return geometry.RandomAffineStep(
        _two(transform.degrees),
        _two(transform.translate or (0, 0)),
        _two(transform.scale or (1, 1)),
        (*_two(shear[:2]), *_two(shear[2:4])),
        transform.center,
        _fill(transform),
    )


@of_pictures
def random_rotation(transform: Any) -> Step:
    """Read `RandomRotation`."""
    if transform.expand:
        raise UnknownTransformError("it expands images, which then differ in size")
    return geometry.RandomAffineStep(
        _two(transform.degrees), center=transform.center, fill=_fill(transform), turns=True
    )


def _two(values: Any) -> tuple[float, float]:
    first, second = map(float, values)
    return first, second


_NEAREST = (InterpolationMode.NEAREST, InterpolationMode.NEAREST.value, Image.Resampling.NEAREST)


def _fill(transform: Any) -> Any:
    """Return the color outside of moved images; check that images are moved by whole pixels."""
    if transform.interpolation not in _NEAREST:
        raise UnknownTransformError(f"its interpolation is {transform.interpolation}; only the nearest pixel is known")
    fill = transform.fill
    if isinstance(fill, dict):
        raise UnknownTransformError("its fill depends on the type of the image")
    if isinstance(fill, Sequence) and len(fill) not in (1, 3):
        raise UnknownTransformError("its fill has not one number for each of three channels")
    return fill


def _magnitudes(transform: Any, num_bins: int) -> Magnitudes:
    """Return torchvision's own table of operations and magnitudes, for a size."""
    solarize = 255.0 if is_v2(transform) else 1.0  # v2 has thresholds from 0 to 1

    @functools.lru_cache(64)
    def found(size: Size) -> Mapping[str, tuple[Sequence[float], bool]]:
        table: dict[str, tuple[Sequence[float], bool]] = {}
        for name, (magnitudes, is_signed) in _space(transform, num_bins, size).items():
            numbers = [] if magnitudes is None or magnitudes.ndim == 0 else [float(value) for value in magnitudes]
            table[name] = ([solarize * value for value in numbers] if name == "Solarize" else numbers), bool(is_signed)
        return table

    try:
        for name, (magnitudes, _) in found((224, 224)).items():
            named_changes(name, magnitudes[0] if magnitudes else 0.0, None)
    except (AttributeError, KeyError, TypeError, ValueError) as err:  # the table is private to torchvision
        raise UnknownTransformError("this torchvision has another table of its magnitudes") from err
    return found


def _space(transform: Any, num_bins: int, size: Size) -> dict[str, Any]:
    if is_v2(transform):
        space = transform._AUGMENTATION_SPACE
        return {name: (make(num_bins, *size), is_signed) for name, (make, is_signed) in space.items()}
    if isinstance(transform, v1.TrivialAugmentWide):
        trivial: dict[str, Any] = transform._augmentation_space(num_bins)
        return trivial
    sized: dict[str, Any] = transform._augmentation_space(num_bins, size)
    return sized


CompiledOp = tuple[str, tuple[float, ...]]
"""The name of a compiled operation (a function of `pixels`), and its numbers."""


@dataclass(frozen=True)
class Op:
    """A row of the table.

    Attributes:
        name: The operation.
        transforms: Readers of this operation's transforms, by class: "Resize" means v1 and v2, "v2.ToImage" only v2.
        containers: Readers of transforms of transforms, likewise.
        pillow: torchvision's function of a PIL image and arguments.
        numbers: Returns the compiled operation and its numbers, from the image's height and width and the arguments;
            None where torchvision raises an error. By default the arguments are the numbers.
        probe: Arguments to compare both functions with, before the compiled operation is used.
        tolerance: Allowed difference of the bytes from torchvision's.
    """

    name: str
    transforms: dict[str, StepReader] = field(default_factory=dict)
    containers: dict[str, ContainerReader] = field(default_factory=dict)
    pillow: Callable[..., Any] | None = None
    numbers: Callable[..., CompiledOp | None] | None = None
    probe: tuple[Any, ...] = ()
    tolerance: int = 0


def _affine(
    picture: Image.Image, angle: float, translate: list[int], scale: float, shear: list[float], fill: Any, center: Any
) -> Any:
    return functional.affine(picture, angle, translate, scale, shear, fill=fill, center=center)


def _affine_numbers(
    size: Size, angle: float, translate: Sequence[int], scale: float, shear: Sequence[float], fill: Any, center: Any
) -> CompiledOp:
    """Return the matrix from output to input coordinates, rounded as in torchvision."""
    center_x, center_y = (size[1] * 0.5, size[0] * 0.5) if center is None else center
    turn, across, down = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    slope, cosine = math.tan(across), math.cos(down)
    a, b = -math.sin(turn - down) * slope / cosine + math.cos(turn), math.cos(turn - down) * slope / cosine
    a, b = a / scale, (b + math.sin(turn)) / scale
    c, d = -(math.sin(turn - down) / cosine) / scale, math.cos(turn - down) / cosine / scale
    x, y = -center_x - translate[0], -center_y - translate[1]
    return "affine", (a, b, a * x + b * y + center_x, c, d, c * x + d * y + center_y, _pixel(fill))


def _rotate_numbers(size: Size, angle: float, fill: Any, center: Any) -> CompiledOp | None:
    """Return the matrix as Pillow computes it, which rounds sine and cosine; None for turns without a matrix."""
    if center is None and angle % 360.0 in (90.0, 180.0, 270.0):
        return None
    turn = -math.radians(angle % 360.0)
    cosine, sine = round(math.cos(turn), 15), round(math.sin(turn), 15)
    x, y = (size[1] / 2, size[0] / 2) if center is None else center
    across, down = cosine * -x + sine * -y + x, -sine * -x + cosine * -y + y
    return "affine", (cosine, sine, across, -sine, cosine, down, _pixel(fill))


def _pixel(fill: Any) -> int:
    """Return the pixel of a fill: None, one number, or one per channel."""
    if fill is None:
        return 0
    channels = [fill] * 3 if isinstance(fill, int | float) else list(fill) * (3 if len(fill) == 1 else 1)
    red, green, blue = (int(value) for value in channels)
    return red | green << 8 | blue << 16


def _hue_numbers(size: Size, factor: float) -> CompiledOp:
    return "hue", (int(np.int32(factor * 255).astype(np.uint8)),)


def _posterize_numbers(size: Size, bits: int) -> CompiledOp | None:
    return ("posterize", (bits,)) if 1 <= bits <= 8 else None


def _blur_numbers(size: Size, width: int, height: int, across: float, down: float) -> CompiledOp | None:
    """torch mirrors the image at its edges, and refuses to mirror more than there is."""
    is_large = size[0] > height // 2 and size[1] > width // 2
    return ("blur", (width, height, across, down)) if is_large else None


OPS = (
    Op("resized_crop", {"RandomResizedCrop": geometry.random_resized_crop}),
    Op("resize", {"Resize": geometry.resize}),
    Op("crop", {"CenterCrop": geometry.center_crop, "RandomCrop": geometry.random_crop}),
    Op("mirror", {"RandomHorizontalFlip": geometry.flip}, pillow=functional.hflip),
    Op("upend", {"RandomVerticalFlip": geometry.vertical_flip}, pillow=functional.vflip),
    Op("pad", {"Pad": geometry.pad}),
    Op("jitter", {"ColorJitter": geometry.jitter}),
    Op("brightness", pillow=functional.adjust_brightness, probe=(1.3,)),
    Op("contrast", pillow=functional.adjust_contrast, probe=(0.6,)),
    Op("saturation", pillow=functional.adjust_saturation, probe=(1.7,)),
    Op("hue", pillow=functional.adjust_hue, numbers=_hue_numbers, probe=(0.2,)),
    Op(
        "grayscale",
        {"Grayscale": geometry.grayscale, "RandomGrayscale": sometimes("grayscale")},
        pillow=lambda picture: functional.to_grayscale(picture, 3),
    ),
    Op(
        "posterize",
        {"RandomPosterize": sometimes("posterize", "bits")},
        pillow=functional.posterize,
        numbers=_posterize_numbers,
        probe=(3,),
    ),
    Op(
        "solarize",
        {"RandomSolarize": sometimes("solarize", "threshold")},
        pillow=functional.solarize,
        probe=(99.5,),
    ),
    Op("invert", {"RandomInvert": sometimes("invert")}, pillow=functional.invert),
    Op("autocontrast", {"RandomAutocontrast": sometimes("autocontrast")}, pillow=functional.autocontrast),
    Op("equalize", {"RandomEqualize": sometimes("equalize")}, pillow=functional.equalize),
    Op(
        "sharpness",
        {"RandomAdjustSharpness": sometimes("sharpness", "sharpness_factor")},
        pillow=functional.adjust_sharpness,
        probe=(1.9,),
    ),
    Op(
        "affine",
        {"RandomAffine": random_affine},
        pillow=_affine,
        numbers=_affine_numbers,
        probe=(21.5, [3, 0], 1.1, [11.0, 5.0], None, None),
    ),
    Op(
        "rotate",
        {"RandomRotation": random_rotation},
        pillow=lambda picture, angle, fill, center: functional.rotate(picture, angle, center=center, fill=fill),
        numbers=_rotate_numbers,
        probe=(31.5, None, None),
    ),
    Op(
        "blur",
        {"GaussianBlur": geometry.blur},
        pillow=lambda picture, w, h, across, down: functional.gaussian_blur(picture, [w, h], [across, down]),
        numbers=_blur_numbers,
        probe=(5, 7, 0.8, 1.3),
        tolerance=1,  # sums float32 in another order than torch
    ),
    Op("trivial_augment", {"TrivialAugmentWide": trivial_augment}),
    Op("rand_augment", {"RandAugment": rand_augment}),
    Op("auto_augment", {"AutoAugment": auto_augment}),
    Op("apply", containers={"RandomApply": random_apply}),
    Op("choice", containers={"RandomChoice": random_choice}),
    Op("order", containers={"RandomOrder": random_order}),
    Op("to_tensor", {"v1.ToTensor": geometry.to_tensor, "PILToTensor": geometry.pil_to_tensor}),
    Op("to_image", {"v2.ToImage": geometry.to_image, "v2.ToPureTensor": geometry.to_pure_tensor}),
    Op("to_dtype", {"ConvertImageDtype": geometry.convert_dtype, "v2.ToDtype": geometry.to_dtype}),
    Op("normalize", {"Normalize": geometry.normalize}),
    Op("erase", {"RandomErasing": geometry.erase}),
)
"""All rows."""

PIXEL_OPS = {op.name: op for op in OPS if op.pillow is not None}
"""The rows that change pixels, by the names that `PixelOp` has."""


def on_picture(change: PixelOp, picture: Image.Image) -> Image.Image:
    """Change an RGB image with torchvision's function."""
    pillow = PIXEL_OPS[change.name].pillow
    assert pillow is not None
    changed: Image.Image = pillow(picture, *change.arguments)
    return changed


def compiled_form(change: PixelOp, size: Size) -> CompiledOp | None:
    """Return the compiled operation and its numbers for an image of a size; None where torchvision raises an error."""
    numbers = PIXEL_OPS[change.name].numbers
    return (change.name, change.arguments) if numbers is None else numbers(size, *change.arguments)


def _classes(name: str) -> list[type]:
    """Return the classes of a name in `Op.transforms`."""
    version, _, alone = name.rpartition(".")
    return [getattr({"v1": v1, "v2": v2}[each], alone) for each in ((version,) if version else ("v1", "v2"))]


READERS = {kind: reader for op in OPS for name, reader in op.transforms.items() for kind in _classes(name)}
"""The reader of each class."""

CONTAINERS = {kind: reader for op in OPS for name, reader in op.containers.items() for kind in _classes(name)}
"""The reader of each container class."""


_COMPOSES = (v1.Compose, v2.Compose)

for _kind in (*_COMPOSES, *READERS, *CONTAINERS):
    called_of(_kind)  # keeps the functions that are there now


def read_views(transform: Transform | None) -> Views:
    """Read a dataset's transform; None does nothing."""
    transforms = flattened(transform)
    try:
        parts = views_of(transforms[0]) if len(transforms) == 1 else None
    except Exception:  # noqa: BLE001 - an object of any kind; it runs as written
        parts = None
    if parts is None:
        return Views((read_plan(transform),))
    return Views(tuple(map(read_plan, parts)), is_list=True)


def read_plan(transform: Transform | None) -> Plan:
    """Read a transform that returns one view of an image."""
    transforms = flattened(transform)
    plan = _begun(Plan(), transforms)
    left = transforms[len(plan.fused) :]
    # A suffix starts with the image type that the prefix leaves; float tensors have no known suffix.
    begin = Plan(is_tensor=plan.is_tensor and plan.pointwise.operations is None, is_image=plan.is_image)
    for start in range(1, len(left)):
        ending = _begun(begin, left[start:])
        if len(ending.fused) == len(left) - start and ending.is_tensor and ending.pointwise != begin.pointwise:
            return replace(plan, rest=tuple(left[:start]), ending=ending)
    return replace(plan, rest=tuple(left))


def _begun(plan: Plan, transforms: Sequence[Transform]) -> Plan:
    """Read transforms up to the first unknown one; record why it is unknown."""
    if replaced := functions.replaced():
        return replace(plan, reason=replaced)
    for each in transforms:
        try:
            plan = replace(read_one(plan, each), fused=(*plan.fused, each))
        except Exception as err:  # noqa: BLE001 - objects of any kind; what cannot be read is not known
            return replace(plan, reason=why_unknown(err))
    return plan


def why_unknown(err: Exception) -> str:
    """Return the reason why a transform that could not be read runs as written."""
    return str(err) if isinstance(err, UnknownTransformError) else f"it cannot be read: {type(err).__name__}: {err}"


def flattened(transform: Transform | None) -> list[Transform]:
    """Flatten nested `Compose` transforms into a list; [] for None."""
    if transform is None:
        return []
    if type(transform) in _COMPOSES and not customized(transform):
        parts = transform.transforms  # type: ignore[attr-defined]  # Compose is untyped
        if isinstance(parts, Sequence | nn.ModuleList):
            return [each for part in parts for each in flattened(part)]
    return [transform]


def read_one(plan: Plan, transform: Any) -> Plan:
    """Return a plan extended by a transform."""
    for each in as_torchvision(transform, is_tensor=plan.is_tensor):
        kind = type(each)
        if kind not in READERS and kind not in CONTAINERS and kind not in _COMPOSES:
            raise UnknownTransformError(f"{kind.__module__}.{kind.__qualname__} is not one of those known here")
        if change := customized(transform):
            raise UnknownTransformError(change)
        if plan.is_image and not is_v2(transform):
            raise UnknownTransformError(
                "of tv_tensors.Image, v1 transforms make plain tensors or not, depending on the image"
            )
        if kind in READERS:
            plan = READERS[kind](plan, each)
        else:
            plan = with_step(plan, CONTAINERS[kind](each, _inner_steps(plan, each)))
    return plan


def customized(transform: Any) -> str:
    """Say what a user changed on this object or its class: a replaced function or a hook; "" if nothing."""
    if replaced := [name for name in vars(transform) if callable(getattr(type(transform), name, None))]:
        return f"its {replaced[0]} was replaced"
    hooks = [getattr(transform, name, None) for name in ("_forward_hooks", "_forward_pre_hooks")]
    hooks += [getattr(module, name, None) for name in ("_global_forward_hooks", "_global_forward_pre_hooks")]
    return "it has a hook" if any(hooks) else called_of(type(transform)).replaced()


def _inner_steps(plan: Plan, transform: Any) -> list[tuple[Step, ...]]:
    """Read each transform in a container; the transforms may change pixels but not the size."""
    if plan.is_tensor:
        raise UnknownTransformError("the image is a tensor by then")
    found = []
    for part in transform.transforms:
        inner = read_plan(part)
        if inner.rest or inner.is_tensor or not all(step.keeps_size for step in inner.steps):
            raise UnknownTransformError(f"{type(part).__name__} in it is not known there")
        found.append(inner.steps)
    return found


def as_given(plan: Plan, image: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to the input type of the first transform in `rest`."""
    return tv_tensors.Image(image) if plan.is_image else image
