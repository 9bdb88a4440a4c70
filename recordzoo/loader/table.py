"""The table of known transforms, and the reading of a dataset's transforms with it.

A row of `OPS` is an operation: its transforms, torchvision's function, and the numbers for compiled code. Before it
stand the readers of transforms that make a tensor of an image, and change its values.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn.modules import module
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode, functional, v2

from recordzoo.loader import changes, geometry
from recordzoo.loader.changes import Inner, sometimes
from recordzoo.loader.plan import (
    ATTEMPTS,
    Action,
    Draws,
    Erase,
    Operation,
    PixelOp,
    Plan,
    Size,
    Step,
    StepReader,
    Transform,
    UnknownTransformError,
    Views,
    between,
    is_v2,
    refuse_other_dtype,
    replaced,
    two,
    views_of,
    watch,
    with_step,
)


def erase(plan: Plan, transform: Any) -> Plan:
    """Read `RandomErasing`."""
    if plan.pointwise.operations is None:
        raise UnknownTransformError("the image is not float by then")
    if isinstance(transform.value, str) or transform.value is None:
        raise UnknownTransformError("it fills boxes with noise")
    values = _channels(transform.value, "its value")
    return _with_boxes(plan, float(transform.p), two(transform.scale), two(map(math.log, transform.ratio)), values)


def _timm_erase(plan: Plan, transform: Any) -> Plan:
    """Read timm's `RandomErasing`."""
    if transform.mode not in ("", "const"):
        raise UnknownTransformError("it fills boxes with noise")
    if (transform.min_count, transform.max_count) != (1, 1):
        raise UnknownTransformError("it erases several boxes")
    if str(transform.device) != "cpu":
        raise UnknownTransformError(f"it makes the filling of boxes on {transform.device}")
    scale, ratios = (transform.min_area, transform.max_area), two(transform.log_aspect_ratio)
    return _with_boxes(plan, transform.probability, scale, ratios, (0.0, 0.0, 0.0))


def _with_boxes(
    plan: Plan,
    probability: float,
    scale: tuple[float, float],
    ratios: tuple[float, float],
    values: tuple[float, float, float],
) -> Plan:
    """Return a plan that erases a box.

    Args:
        scale: The smallest and the largest share of the image's area.
        ratios: The logarithms of the smallest and the largest ratio of height to width.
    """
    num_draws = 3 + 2 * ATTEMPTS  # decision, top, left; then area and aspect ratio of each attempt

    def actions(size: Size, draws: Draws) -> list[Action]:
        if draws[0] >= probability:
            return []
        height, width = size
        for number in range(3, num_draws, 2):
            area = height * width * between(*scale, draws[number])
            aspect = math.exp(between(*ratios, draws[number + 1]))
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h < height and w < width:
                top, left = int(draws[1] * (height - h + 1)), int(draws[2] * (width - w + 1))
                return [Erase(top, left, h, w, values)]
        return []

    return with_step(plan, Step(actions, num_draws), erases=True)


def to_picture(plan: Plan, transform: Any) -> Plan:
    """Read `ToPILImage`."""
    if not plan.is_tensor or plan.pointwise.operations is not None:
        raise UnknownTransformError("the image is no tensor of bytes by then")
    if transform.mode not in (None, "RGB"):
        raise UnknownTransformError(f"its mode is {transform.mode}")
    return replace(plan, is_tensor=False, is_image=False)


def to_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `ToTensor`."""
    refuse_other_dtype()
    return replace(pil_to_tensor(plan, transform), pointwise=plan.pointwise.then(("div", 255.0)))


def pil_to_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `PILToTensor`."""
    if plan.is_tensor:
        raise UnknownTransformError("the image is a tensor already")
    return replace(plan, is_tensor=True)


def to_image(plan: Plan, transform: Any) -> Plan:
    """Read `ToImage`."""
    if isinstance(tv_tensors.Image(torch.empty(1, 1, 1)) + 0, tv_tensors.Image):
        raise UnknownTransformError('torchvision.tv_tensors.set_return_type is "TVTensor"')
    return replace(plan, is_tensor=True, is_image=True)


def to_pure_tensor(plan: Plan, transform: Any) -> Plan:
    """Read `ToPureTensor`."""
    return replace(plan, is_image=False)


def convert_dtype(plan: Plan, transform: Any) -> Plan:
    """Read `ConvertImageDtype`: v1 divides by 255, v2 multiplies by 1 / 255."""
    return _to_float(plan, transform.dtype, ("mul", 1.0 / 255) if is_v2(transform) else ("div", 255.0))


def to_dtype(plan: Plan, transform: Any) -> Plan:
    """Read `ToDtype`."""
    scaled: tuple[Operation, ...] = (("mul", 1.0 / 255),) if transform.scale else ()
    return _to_float(plan, transform.dtype, *scaled)


def normalize(plan: Plan, transform: Any) -> Plan:
    """Read `Normalize`."""
    if plan.pointwise.operations is None:
        raise UnknownTransformError("the image is not float by then")
    _refuse_erased(plan)
    mean, std = _channels(transform.mean), _channels(transform.std)
    if not all(map(np.float32, std)):
        raise UnknownTransformError("its std has a zero")
    return replace(plan, pointwise=plan.pointwise.then(("sub", mean), ("div", std)))


def _to_float(plan: Plan, dtype: object, *operations: Operation) -> Plan:
    if not plan.is_tensor:
        raise UnknownTransformError("the image is no tensor by then")
    if dtype is plan.pointwise.dtype:
        return plan
    _refuse_erased(plan)
    if dtype is not torch.float32:
        raise UnknownTransformError(f"its dtype is {dtype}; float32 and uint8 are known")
    return replace(plan, pointwise=plan.pointwise.then(*operations))


def _refuse_erased(plan: Plan) -> None:
    if plan.erases:
        raise UnknownTransformError("boxes of the image are erased by then, and would be changed, too")


def _channels(values: Any, name: str = "it") -> tuple[float, float, float]:
    if isinstance(values, torch.Tensor) and values.requires_grad:
        raise UnknownTransformError("a gradient is wanted")
    channels = tuple(float(value) for value in ([values] if isinstance(values, float | int) else values))
    if len(channels) not in (1, 3) or not all(map(math.isfinite, channels)):
        raise UnknownTransformError(f"{name} has not one number for each of three channels")
    red, green, blue = channels * 3 if len(channels) == 1 else channels
    return red, green, blue


CompiledOp = tuple[str, tuple[float, ...]]
"""The name of a compiled operation (a function of `kernels`), and its numbers."""


@dataclass(frozen=True)
class Op:
    """A row of the table.

    Attributes:
        name: The operation.
        transforms: Readers of this operation's transforms, by class: "Resize" means v1 and v2, "v2.ToImage" only v2.
        pillow: torchvision's function of a PIL image and arguments.
        numbers: Returns the compiled operation and its numbers, from the image's height and width and the arguments;
            None where torchvision raises an error. By default the arguments are the numbers.
        probes: Arguments to compare both functions with, before the compiled operation is used.
        tolerance: Allowed difference of the bytes from torchvision's.
    """

    name: str
    transforms: dict[str, StepReader] = field(default_factory=dict)
    pillow: Callable[..., Any] | None = None
    numbers: Callable[..., CompiledOp | None] | None = None
    probes: tuple[tuple[Any, ...], ...] = ((),)
    tolerance: int = 0


# The numbers of affine transforms, rotations and perspectives, from the arguments of torchvision's functions.


def _affine_numbers(size: Size, *arguments: Any) -> CompiledOp:
    """Return torchvision's matrix from output to input coordinates."""
    *how, mode, fill, center = arguments
    center = (size[1] * 0.5, size[0] * 0.5) if center is None else center
    matrix = functional._get_inverse_affine_matrix(center, *how)
    return _moved(tuple(matrix), mode, fill)


def _rotate_numbers(
    size: Size, angle: float, mode: InterpolationMode, expand: bool, center: Any, fill: Any
) -> CompiledOp | None:
    """Return the matrix as Pillow computes it, which rounds sine and cosine; None for turns without a matrix."""
    if center is None and angle % 360.0 in (90.0, 180.0, 270.0):
        return None
    turn = -math.radians(angle % 360.0)
    cosine, sine = round(math.cos(turn), 15), round(math.sin(turn), 15)
    x, y = (size[1] / 2, size[0] / 2) if center is None else center
    across, down = cosine * -x + sine * -y + x, -sine * -x + cosine * -y + y
    return _moved((cosine, sine, across, -sine, cosine, down), mode, fill)


def _perspective_numbers(
    size: Size, starts: None, ends: None, mode: InterpolationMode, fill: Any, coefficients: Sequence[float]
) -> CompiledOp:
    return "warp", (_WARPS[mode], _pixel(fill), *coefficients)


def _moved(matrix: tuple[float, ...], mode: InterpolationMode, fill: Any) -> CompiledOp:
    """Return the operation that maps pixels by a matrix of 2 rows and 3 columns."""
    if mode is InterpolationMode.NEAREST:  # for which Pillow computes in integers
        return "affine", (*matrix, _pixel(fill))
    return "warp", (_WARPS[mode], _pixel(fill), *matrix, 0.0, 0.0)


_WARPS = {InterpolationMode.NEAREST: 0, InterpolationMode.BILINEAR: 1, InterpolationMode.BICUBIC: 2}


def _pixel(fill: Any) -> int:
    """Return the pixel of a fill."""
    red, green, blue = geometry.color_of(fill)
    return red | green << 8 | blue << 16


def _hue_numbers(size: Size, factor: float) -> CompiledOp:
    return "hue", (int(np.int32(factor * 255).astype(np.uint8)),)


def _posterize_numbers(size: Size, bits: int) -> CompiledOp | None:
    return ("posterize", (bits,)) if 1 <= bits <= 8 else None


def _blur_numbers(size: Size, width: int, height: int, across: float, down: float) -> CompiledOp | None:
    """Return the numbers; None where the image is too small: torch mirrors it at its edges, once at most."""
    is_large = size[0] > height // 2 and size[1] > width // 2
    return ("blur", (width, height, across, down)) if is_large else None


def _of_parts(read: Callable[[Any, Inner], Step]) -> StepReader:
    """Read a transform of transforms, given the steps of each; they may change pixels but not the size."""

    def reader(plan: Plan, transform: Any) -> Plan:
        if plan.is_tensor:
            raise UnknownTransformError("the image is a tensor by then")
        found = []
        for part in transform.transforms:
            inner = read_plan(part)
            if inner.rest or inner.is_tensor or not all(step.result is None for step in inner.steps):
                raise UnknownTransformError(f"{type(part).__name__} in it is not known there")
            found.append(inner.steps)
        return with_step(plan, read(transform, found))

    return reader


OPS = (
    Op("resized_crop", {"RandomResizedCrop": geometry.random_resized_crop}),
    Op("resize", {"Resize": geometry.resize}),
    Op("crop", {"CenterCrop": geometry.center_crop, "RandomCrop": geometry.random_crop}),
    Op("mirror", {"RandomHorizontalFlip": geometry.flip}, pillow=functional.hflip),
    Op("upend", {"RandomVerticalFlip": partial(geometry.flip, is_vertical=True)}, pillow=functional.vflip),
    Op("pad", {"Pad": geometry.pad, "v2.RandomZoomOut": geometry.zoom_out}),
    Op(
        "resize_at_random",
        {
            "v2.ScaleJitter": geometry.scale_jitter,
            "v2.RandomShortestSize": geometry.shortest_size,
            "v2.RandomResize": geometry.random_resize,
        },
    ),
    Op("crop_with_boxes", {"v2.RandomIoUCrop": geometry.iou_crop}),
    Op("jitter", {"ColorJitter": changes.jitter, "v2.RandomPhotometricDistort": changes.distort}),
    Op(
        "permute",
        pillow=lambda picture, *order: v2.functional.permute_channels(picture, list(order)),
        probes=((2, 0, 1), (0, 2, 1)),
    ),
    Op("brightness", pillow=functional.adjust_brightness, probes=((1.3,),)),
    Op("contrast", pillow=functional.adjust_contrast, probes=((0.6,),)),
    Op("saturation", pillow=functional.adjust_saturation, probes=((1.7,),)),
    Op("hue", pillow=functional.adjust_hue, numbers=_hue_numbers, probes=((0.2,),)),
    Op(
        "grayscale",
        {"Grayscale": changes.grayscale, "RandomGrayscale": sometimes("grayscale")},
        pillow=lambda picture: functional.to_grayscale(picture, 3),
    ),
    Op(
        "posterize",
        {"RandomPosterize": sometimes("posterize", "bits")},
        pillow=functional.posterize,
        numbers=_posterize_numbers,
        probes=((3,),),
    ),
    Op(
        "solarize",
        {"RandomSolarize": sometimes("solarize", "threshold")},
        pillow=functional.solarize,
        probes=((99.5,),),
    ),
    Op("invert", {"RandomInvert": sometimes("invert")}, pillow=functional.invert),
    Op("autocontrast", {"RandomAutocontrast": sometimes("autocontrast")}, pillow=functional.autocontrast),
    Op("equalize", {"RandomEqualize": sometimes("equalize")}, pillow=functional.equalize),
    Op(
        "sharpness",
        {"RandomAdjustSharpness": sometimes("sharpness", "sharpness_factor")},
        pillow=functional.adjust_sharpness,
        probes=((1.9,),),
    ),
    Op(
        "affine",
        {"RandomAffine": changes.random_affine},
        pillow=functional.affine,
        numbers=_affine_numbers,
        probes=tuple((21.5, [3, 0], 1.1, [11.0, 5.0], mode, None, None) for mode in _WARPS),
    ),
    Op(
        "rotate",
        {"RandomRotation": changes.random_rotation},
        pillow=functional.rotate,
        numbers=_rotate_numbers,
        probes=tuple((31.5, mode, False, None, None) for mode in _WARPS),
    ),
    Op(
        "perspective",
        {"RandomPerspective": changes.random_perspective},
        pillow=v2.functional.perspective,
        numbers=_perspective_numbers,
        probes=tuple((None, None, mode, 9, [1.3, 0.1, -4.0, -0.05, 1.2, -2.0, 0.004, -0.003]) for mode in _WARPS),
    ),
    Op(
        "blur",
        {"GaussianBlur": changes.blur},
        pillow=lambda picture, w, h, across, down: functional.gaussian_blur(picture, [w, h], [across, down]),
        numbers=_blur_numbers,
        probes=((5, 7, 0.8, 1.3),),
        tolerance=1,  # sums float32 in another order than torch
    ),
    Op("trivial_augment", {"TrivialAugmentWide": changes.trivial_augment}),
    Op("rand_augment", {"RandAugment": changes.rand_augment}),
    Op("auto_augment", {"AutoAugment": changes.auto_augment}),
    Op("apply", {"RandomApply": _of_parts(changes.random_apply)}),
    Op("choice", {"RandomChoice": _of_parts(changes.random_choice)}),
    Op("order", {"RandomOrder": _of_parts(changes.random_order)}),
    Op("identity", dict.fromkeys(("v2.Identity", "nn.Identity"), lambda plan, transform: plan)),
    Op("to_tensor", {"v1.ToTensor": to_tensor, "PILToTensor": pil_to_tensor}),
    Op("to_picture", {"ToPILImage": to_picture}),
    Op("to_image", {"v2.ToImage": to_image, "v2.ToPureTensor": to_pure_tensor}),
    Op("to_dtype", {"ConvertImageDtype": convert_dtype, "v2.ToDtype": to_dtype}),
    Op("normalize", {"Normalize": normalize}),
    Op("erase", {"RandomErasing": erase}),
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
    return [getattr({"v1": v1, "v2": v2, "nn": nn}[each], alone) for each in ((version,) if version else ("v1", "v2"))]


READERS = {kind: reader for op in OPS for name, reader in op.transforms.items() for kind in _classes(name)}
"""The reader of each class."""


_OF_TIMM: dict[str, StepReader] = {
    "timm.data.transforms.RandomResizedCropAndInterpolation": geometry.random_resized_crop,
    "timm.data.transforms.ResizeKeepRatio": geometry.keep_ratio,
    "timm.data.transforms.CenterCropOrPad": geometry.center_crop,
    "timm.data.transforms.RandomCropOrPad": geometry.random_crop,
    "timm.data.transforms.MaybeToTensor": lambda plan, each: plan if plan.is_tensor else to_tensor(plan, each),
    "timm.data.transforms.MaybePILToTensor": lambda plan, each: plan if plan.is_tensor else pil_to_tensor(plan, each),
    # The values stay from 0 to 255.
    "timm.data.transforms.ToTensor": lambda plan, each: _to_float(pil_to_tensor(plan, each), each.dtype),
    "timm.data.random_erasing.RandomErasing": _timm_erase,
}
"""The readers of timm's classes, by module and name."""

_COMPOSES = (v1.Compose, v2.Compose)


def read_views(transform: Transform | None, size: Size | None) -> Views:
    """Read a dataset's transform; None does nothing.

    Args:
        size: Height and width of all images; None if they differ.
    """
    transforms = flattened(transform)
    try:
        parts = views_of(transforms[0]) if len(transforms) == 1 else None
    except Exception:  # noqa: BLE001 - an object of any kind; it runs as written
        parts = None
    if parts is None:
        return Views((read_plan(transform, size),))
    return Views(tuple(read_plan(part, size) for part in parts), is_list=True)


def read_plan(transform: Transform | None, size: Size | None = None) -> Plan:
    """Read a transform that returns one view of an image; the rest as `read_views`."""
    transforms = flattened(transform)
    plan = _begun(Plan(size=size), transforms)
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
    kind = type(transform)
    name = f"{kind.__module__}.{kind.__qualname__}"
    reader = _OF_TIMM.get(name, READERS.get(kind))
    if reader is None and kind not in _COMPOSES:
        raise UnknownTransformError(f"{name} is not one of those known here")
    if name in _OF_TIMM:
        watch(kind)
    if change := customized(transform) or (replaced() if name in _OF_TIMM else ""):
        raise UnknownTransformError(change)
    if plan.is_image and not is_v2(transform):
        raise UnknownTransformError(
            "of tv_tensors.Image, v1 transforms make plain tensors or not, depending on the image"
        )
    if reader is None:
        raise UnknownTransformError("its transforms are no list")
    return reader(plan, transform)


def customized(transform: Any) -> str:
    """Say what a user changed on this object: a replaced function or a hook; "" if nothing."""
    if own := [name for name in vars(transform) if callable(getattr(type(transform), name, None))]:
        return f"its {own[0]} was replaced"
    hooks = [getattr(transform, name, None) for name in ("_forward_hooks", "_forward_pre_hooks")]
    hooks += [getattr(module, name, None) for name in ("_global_forward_hooks", "_global_forward_pre_hooks")]
    return "it has a hook" if any(hooks) else ""


def as_given(plan: Plan, image: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to the input type of the first transform in `rest`."""
    return tv_tensors.Image(image) if plan.is_image else image
