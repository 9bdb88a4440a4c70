"""Operations on the pixels of an image: torchvision's function for each, and how the compiled code is asked for it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from torchvision.transforms import functional

Size = tuple[int, int]
"""Height and width, as torchvision has them."""

# Any: torchvision's functions are untyped, their arguments numbers and lists of numbers.
Arguments = tuple[Any, ...]

Compiled = tuple[str, tuple[float, ...]]
"""The name of a compiled operation (`pixels.run.NAMES`), and its numbers."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation in both of its forms.

    Attributes:
        on_picture: torchvision's function, of a PIL image and the arguments.
        compiled: Returns what to ask of the compiled code, from the image's height and width and the arguments; None
            where torchvision raises an error.
        probe: Arguments with which both are compared before the compiled code is used.
        tolerance: How far its bytes may be from torchvision's.
    """

    on_picture: Callable[..., Any]
    compiled: Callable[..., Compiled | None]
    probe: Arguments = ()
    tolerance: int = 0


@dataclass(slots=True)  # not frozen: twice as fast to create, and there are many
class Change:
    """Change the pixels of an RGB image, and not its size.

    Attributes:
        name: One of `OPERATIONS`.
        arguments: Those of torchvision's function, behind the image.
    """

    name: str
    arguments: Arguments = ()

    def on_picture(self, picture: Image.Image) -> Image.Image:
        """Do it with torchvision's function."""
        changed: Image.Image = OPERATIONS[self.name].on_picture(picture, *self.arguments)
        return changed

    def compiled(self, size: Size) -> Compiled | None:
        """Return what to ask of the compiled code, for a height and width; None where torchvision raises an error."""
        return OPERATIONS[self.name].compiled(size, *self.arguments)


def _as_given(name: str) -> Callable[..., Compiled]:
    return lambda size, *numbers: (name, numbers)


def _affine(picture: Image.Image, translate: list[int], shear: list[float], is_central: bool, fill: Any) -> Image.Image:
    center = None if is_central else [0, 0]
    moved: Image.Image = functional.affine(
        picture, angle=0.0, translate=translate, scale=1.0, shear=shear, fill=fill, center=center
    )
    return moved


def _affine_compiled(
    size: Size, translate: Sequence[int], shear: Sequence[float], is_central: bool, fill: Any
) -> Compiled:
    """Return the matrix from a place in the result to a place in the image, rounded as torchvision's."""
    height, width = size
    center_x, center_y = (width * 0.5, height * 0.5) if is_central else (0.0, 0.0)
    across, down = (math.radians(angle) for angle in shear)
    slope, cosine = math.tan(across), math.cos(down)
    a, b = 1.0 - math.sin(-down) * slope / cosine, cosine * slope / cosine
    c, d = -math.sin(-down) / cosine, 1.0
    x, y = -center_x - translate[0], -center_y - translate[1]
    return "affine", (a, b, a * x + b * y + center_x, c, d, c * x + d * y + center_y, _pixel(fill))


def _rotate(picture: Image.Image, angle: float, fill: Any) -> Image.Image:
    turned: Image.Image = functional.rotate(picture, angle, fill=fill)
    return turned


def _rotate_compiled(size: Size, angle: float, fill: Any) -> Compiled:
    """Return the matrix as Pillow computes it, which rounds sine and cosine."""
    turn = -math.radians(angle % 360.0)
    cosine, sine = round(math.cos(turn), 15), round(math.sin(turn), 15)
    x, y = size[1] / 2, size[0] / 2
    across, down = cosine * -x + sine * -y + x, -sine * -x + cosine * -y + y
    return "affine", (cosine, sine, across, -sine, cosine, down, _pixel(fill))


def _pixel(fill: Any) -> int:
    """Return the pixel of a fill: None, a number, or one for each channel."""
    if fill is None:
        return 0
    channels = [fill] * 3 if isinstance(fill, int | float) else list(fill) * (3 if len(fill) == 1 else 1)
    red, green, blue = (int(value) for value in channels)
    return red | green << 8 | blue << 16


def _hue_compiled(size: Size, factor: float) -> Compiled:
    return "hue", (int(np.int32(factor * 255).astype(np.uint8)),)


def _posterize_compiled(size: Size, bits: int) -> Compiled | None:
    return ("posterize", (bits,)) if 1 <= bits <= 8 else None


def _blur(picture: Image.Image, width: int, height: int, across: float, down: float) -> Image.Image:
    blurred: Image.Image = functional.gaussian_blur(picture, [width, height], [across, down])
    return blurred


def _blur_compiled(size: Size, width: int, height: int, across: float, down: float) -> Compiled | None:
    """torch mirrors the image at its edges, and refuses to mirror more than there is."""
    is_large = size[0] > height // 2 and size[1] > width // 2
    return ("blur", (width, height, across, down)) if is_large else None


OPERATIONS: dict[str, Operation] = {
    "brightness": Operation(functional.adjust_brightness, _as_given("brightness"), (1.3,)),
    "contrast": Operation(functional.adjust_contrast, _as_given("contrast"), (0.6,)),
    "saturation": Operation(functional.adjust_saturation, _as_given("saturation"), (1.7,)),
    "hue": Operation(functional.adjust_hue, _hue_compiled, (0.2,)),
    "grayscale": Operation(lambda picture: functional.to_grayscale(picture, 3), _as_given("grayscale")),
    "posterize": Operation(functional.posterize, _posterize_compiled, (3,)),
    "solarize": Operation(functional.solarize, _as_given("solarize"), (99.5,)),
    "invert": Operation(functional.invert, _as_given("invert")),
    "autocontrast": Operation(functional.autocontrast, _as_given("autocontrast")),
    "equalize": Operation(functional.equalize, _as_given("equalize")),
    "sharpness": Operation(functional.adjust_sharpness, _as_given("sharpness"), (1.9,)),
    "affine": Operation(_affine, _affine_compiled, ([3, 0], [11.0, 0.0], True, None)),
    "rotate": Operation(_rotate, _rotate_compiled, (31.5, None)),
    "mirror": Operation(functional.hflip, _as_given("mirror")),
    # Its sums of float32 have another order than torch's.
    "blur": Operation(_blur, _blur_compiled, (5, 7, 0.8, 1.3), tolerance=1),
}
"""All operations, by name."""
