"""torchvision's transforms of colours and pixels → steps, for PIL images."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2

from recordzoo.transforms.augment import (
    AutomaticStep,
    BlurStep,
    ChangeStep,
    ColorJitterStep,
    Magnitudes,
    PolicyStep,
    RandomErasingStep,
    SomeOfStep,
    named_changes,
)
from recordzoo.transforms.changes import Arguments, Change, Size
from recordzoo.transforms.plan import Plan, UnknownTransformError, is_v2, with_step
from recordzoo.transforms.steps import RandomFlipStep, Step

SAME_SIZE = (ChangeStep, ColorJitterStep, BlurStep, SomeOfStep, AutomaticStep, PolicyStep, RandomFlipStep)
"""Steps that leave the size of an image as it is."""

_NEAREST = (InterpolationMode.NEAREST, InterpolationMode.NEAREST.value, Image.Resampling.NEAREST)

# Any, in all of this module: torchvision's transforms are untyped.
Reader = Callable[[Plan, Any], Plan]


def _of_pictures(read: Callable[[Any], Step]) -> Reader:
    """Make a reader that takes PIL images only: of tensors torchvision computes other bytes."""

    def reader(plan: Plan, transform: Any) -> Plan:
        if plan.is_tensor:
            raise UnknownTransformError("the image is a tensor by then; before ToTensor or ToImage it would be known")
        return with_step(plan, read(transform))

    return reader


def _jitter(transform: Any) -> Step:
    ranges: dict[str, tuple[float, float] | None] = {}
    for name in ("brightness", "contrast", "saturation", "hue"):
        between = getattr(transform, name)
        ranges[name] = None if between is None else (float(between[0]), float(between[1]))
    return ColorJitterStep(ranges)


def _grayscale(transform: Any) -> Step:
    if transform.num_output_channels != 3:
        raise UnknownTransformError("it makes images of one channel")
    return ChangeStep(1.0, Change("grayscale"))


def _blur(transform: Any) -> Step:
    width, height = transform.kernel_size
    return BlurStep((int(width), int(height)), (float(transform.sigma[0]), float(transform.sigma[1])))


def _sometimes(name: str, *attributes: str) -> Reader:
    """Read a transform that does one operation with probability `p`; the attributes are the operation's arguments."""

    def read(transform: Any) -> Step:
        arguments: Arguments = tuple(getattr(transform, attribute) for attribute in attributes)
        return ChangeStep(float(transform.p), Change(name, arguments))

    return _of_pictures(read)


def _trivial(transform: Any) -> Step:
    return AutomaticStep(_magnitudes(transform, transform.num_magnitude_bins), 1, None, _fill(transform))


def _rand_augment(transform: Any) -> Step:
    magnitudes = _magnitudes(transform, transform.num_magnitude_bins)
    return AutomaticStep(magnitudes, transform.num_ops, transform.magnitude, _fill(transform))


def _auto_augment(transform: Any) -> Step:
    policies = getattr(transform, "policies", None) or getattr(transform, "_policies", None)
    if policies is None:
        raise UnknownTransformError("this torchvision keeps its policies elsewhere")
    return PolicyStep(_magnitudes(transform, 10), policies, _fill(transform))


def _fill(transform: Any) -> Any:
    """Return what is outside of moved images; check that they are moved by whole pixels."""
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
        for name, (values, is_signed) in _space(transform, num_bins, size).items():
            numbers = [] if values is None or values.ndim == 0 else [float(value) for value in values]
            table[name] = ([solarize * value for value in numbers] if name == "Solarize" else numbers), bool(is_signed)
        return table

    try:
        for name, (magnitudes, _) in found((224, 224)).items():
            named_changes(name, magnitudes[0] if magnitudes else 0.0, None)
    except (AttributeError, KeyError, TypeError, ValueError) as err:  # of torchvision's private table
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


def erasing_step(transform: Any) -> RandomErasingStep:
    """Read a `RandomErasing`.

    Raises:
        UnknownTransformError: It fills boxes with noise.
    """
    value = transform.value
    if isinstance(value, str) or value is None:
        raise UnknownTransformError("it fills boxes with noise")
    values = [float(each) for each in ([value] if isinstance(value, int | float) else value)]
    if len(values) not in (1, 3):
        raise UnknownTransformError("its value has not one number for each of three channels")
    red, green, blue = values * 3 if len(values) == 1 else values
    scale, ratio = tuple(map(float, transform.scale)), tuple(map(float, transform.ratio))
    return RandomErasingStep(float(transform.p), (scale[0], scale[1]), (ratio[0], ratio[1]), (red, green, blue))


CHANGE_READERS: dict[type, Reader] = {
    v1.ColorJitter: _of_pictures(_jitter),
    v2.ColorJitter: _of_pictures(_jitter),
    v1.Grayscale: _of_pictures(_grayscale),
    v2.Grayscale: _of_pictures(_grayscale),
    v1.RandomGrayscale: _sometimes("grayscale"),
    v2.RandomGrayscale: _sometimes("grayscale"),
    v1.GaussianBlur: _of_pictures(_blur),
    v2.GaussianBlur: _of_pictures(_blur),
    v1.RandomPosterize: _sometimes("posterize", "bits"),
    v2.RandomPosterize: _sometimes("posterize", "bits"),
    v1.RandomSolarize: _sometimes("solarize", "threshold"),
    v2.RandomSolarize: _sometimes("solarize", "threshold"),
    v1.RandomInvert: _sometimes("invert"),
    v2.RandomInvert: _sometimes("invert"),
    v1.RandomAutocontrast: _sometimes("autocontrast"),
    v2.RandomAutocontrast: _sometimes("autocontrast"),
    v1.RandomEqualize: _sometimes("equalize"),
    v2.RandomEqualize: _sometimes("equalize"),
    v1.RandomAdjustSharpness: _sometimes("sharpness", "sharpness_factor"),
    v2.RandomAdjustSharpness: _sometimes("sharpness", "sharpness_factor"),
    v1.TrivialAugmentWide: _of_pictures(_trivial),
    v2.TrivialAugmentWide: _of_pictures(_trivial),
    v1.RandAugment: _of_pictures(_rand_augment),
    v2.RandAugment: _of_pictures(_rand_augment),
    v1.AutoAugment: _of_pictures(_auto_augment),
    v2.AutoAugment: _of_pictures(_auto_augment),
}
"""What reads each class."""
