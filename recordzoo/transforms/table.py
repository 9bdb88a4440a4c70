"""The table of all transforms that a loader knows, and of their pixel operations.

To add a transform, write a `Step` and its reader (in `geometry`, `values` or `choices`), and a row here. If it changes
pixels in a new way, the row also says how Pillow and the compiled code (`pixels`) do that: the compiled function also
needs its branch in `_change` of `pixels/run.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image
from torchvision import transforms as v1
from torchvision.transforms import functional, v2

from recordzoo.transforms import choices, geometry, values
from recordzoo.transforms.choices import ContainerReader
from recordzoo.transforms.plan import StepReader
from recordzoo.transforms.steps import PixelOp, Size
from recordzoo.transforms.values import sometimes

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


def _affine(picture: Image.Image, translate: list[int], shear: list[float], is_central: bool, fill: Any) -> Any:
    center = None if is_central else [0, 0]
    return functional.affine(picture, angle=0.0, translate=translate, scale=1.0, shear=shear, fill=fill, center=center)


def _affine_numbers(
    size: Size, translate: Sequence[int], shear: Sequence[float], is_central: bool, fill: Any
) -> CompiledOp:
    """Return the matrix from output to input coordinates, rounded as in torchvision."""
    height, width = size
    center_x, center_y = (width * 0.5, height * 0.5) if is_central else (0.0, 0.0)
    across, down = (math.radians(angle) for angle in shear)
    slope, cosine = math.tan(across), math.cos(down)
    a, b = 1.0 - math.sin(-down) * slope / cosine, cosine * slope / cosine
    c, d = -math.sin(-down) / cosine, 1.0
    x, y = -center_x - translate[0], -center_y - translate[1]
    return "affine", (a, b, a * x + b * y + center_x, c, d, c * x + d * y + center_y, _pixel(fill))


def _rotate_numbers(size: Size, angle: float, fill: Any) -> CompiledOp:
    """Return the matrix as Pillow computes it, which rounds sine and cosine."""
    turn = -math.radians(angle % 360.0)
    cosine, sine = round(math.cos(turn), 15), round(math.sin(turn), 15)
    x, y = size[1] / 2, size[0] / 2
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
    Op("jitter", {"ColorJitter": values.jitter}),
    Op("brightness", pillow=functional.adjust_brightness, probe=(1.3,)),
    Op("contrast", pillow=functional.adjust_contrast, probe=(0.6,)),
    Op("saturation", pillow=functional.adjust_saturation, probe=(1.7,)),
    Op("hue", pillow=functional.adjust_hue, numbers=_hue_numbers, probe=(0.2,)),
    Op(
        "grayscale",
        {"Grayscale": values.grayscale, "RandomGrayscale": sometimes("grayscale")},
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
    Op("affine", pillow=_affine, numbers=_affine_numbers, probe=([3, 0], [11.0, 0.0], True, None)),
    Op(
        "rotate",
        pillow=lambda picture, angle, fill: functional.rotate(picture, angle, fill=fill),
        numbers=_rotate_numbers,
        probe=(31.5, None),
    ),
    Op(
        "blur",
        {"GaussianBlur": values.blur},
        pillow=lambda picture, w, h, across, down: functional.gaussian_blur(picture, [w, h], [across, down]),
        numbers=_blur_numbers,
        probe=(5, 7, 0.8, 1.3),
        tolerance=1,  # sums float32 in another order than torch
    ),
    Op("trivial_augment", {"TrivialAugmentWide": choices.trivial_augment}),
    Op("rand_augment", {"RandAugment": choices.rand_augment}),
    Op("auto_augment", {"AutoAugment": choices.auto_augment}),
    Op("apply", containers={"RandomApply": choices.random_apply}),
    Op("choice", containers={"RandomChoice": choices.random_choice}),
    Op("order", containers={"RandomOrder": choices.random_order}),
    Op("to_tensor", {"v1.ToTensor": values.to_tensor, "PILToTensor": values.pil_to_tensor}),
    Op("to_image", {"v2.ToImage": values.to_image, "v2.ToPureTensor": values.to_pure_tensor}),
    Op("to_dtype", {"ConvertImageDtype": values.convert_dtype, "v2.ToDtype": values.to_dtype}),
    Op("normalize", {"Normalize": values.normalize}),
    Op("erase", {"RandomErasing": values.erase}),
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
