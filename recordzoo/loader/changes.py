"""Read torchvision's transforms that change pixels: colors, moves by fractions of pixels; and those that choose others.

Each function reads the parameters of a transform, and returns a step that decides the changes, each a `PixelOp`.
"""

import functools
import itertools
import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode

from recordzoo.loader.geometry import fill_of, mode_of
from recordzoo.loader.plan import (
    Action,
    Draws,
    PixelOp,
    Size,
    Step,
    StepReader,
    UnknownTransformError,
    between,
    decide,
    is_v2,
    num_draws,
    of_pictures,
    refuse_other_dtype,
    two,
)


def sometimes(name: str, *attributes: str) -> StepReader:
    """Read a transform that applies one operation with probability `p`; `attributes` are the operation's arguments."""

    def read(transform: Any) -> Step:
        arguments = tuple(getattr(transform, attribute) for attribute in attributes)
        return _with_probability(float(transform.p), PixelOp(name, arguments))

    return of_pictures(read)


@of_pictures
def grayscale(transform: Any) -> Step:
    """Read `Grayscale`."""
    if transform.num_output_channels != 3:
        raise UnknownTransformError("it makes images of one channel")
    return _with_probability(1.0, PixelOp("grayscale"))


def _with_probability(probability: float, change: PixelOp) -> Step:
    return Step(lambda size, draws: [change] if draws[0] < probability else [], 1)


_COLORS = ("brightness", "contrast", "saturation", "hue")
"""Attributes with the range of a factor; also the operations."""


@of_pictures
def jitter(transform: Any) -> Step:
    """Read `ColorJitter`: four operations in a random order; one without a range is skipped."""
    given = {name: getattr(transform, name) for name in _COLORS}
    ranges = {name: None if limits is None else two(limits) for name, limits in given.items()}

    def actions(size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        names = list(ranges)
        place = int(draws[-1] * math.factorial(len(names)))
        for left in range(len(names), 0, -1):
            place, chosen = divmod(place, left)
            name = names.pop(chosen)
            if (limits := ranges[name]) is not None:
                found.append(PixelOp(name, (between(*limits, draws[left - 1]),)))
        return found

    return Step(actions, 5)  # a factor per operation, then their order


@of_pictures
def distort(transform: Any) -> Step:
    """Read `RandomPhotometricDistort`: each change with a probability, in torchvision's order."""
    probability = float(transform.p)
    ranges = {name: two(getattr(transform, name)) for name in _COLORS}

    def actions(size: Size, draws: Draws) -> list[Action]:
        found: list[PixelOp] = []
        for number, (name, limits) in enumerate(ranges.items()):
            if draws[2 * number] < probability:
                found.append(PixelOp(name, (between(*limits, draws[2 * number + 1]),)))
        if draws[8] >= 0.5:
            found.sort(key=lambda change: change.name == "contrast")
        if draws[9] < probability:
            found.append(PixelOp("permute", _ORDERS[int(draws[10] * len(_ORDERS))]))
        return [*found]

    # Decision and factor of each, the place of contrast, decision and order of the channels.
    return Step(actions, 11)


_ORDERS = list(itertools.permutations(range(3)))


@of_pictures
def blur(transform: Any) -> Step:
    """Read `GaussianBlur`."""
    refuse_other_dtype()  # in which torchvision computes the window
    if torch.is_autocast_enabled("cpu"):
        raise UnknownTransformError("torch.autocast computes it in another dtype")
    width, height = map(int, transform.kernel_size)
    sigmas = two(transform.sigma)

    def actions(size: Size, draws: Draws) -> list[Action]:
        sigma = between(*sigmas, draws[0])
        return [PixelOp("blur", (width, height, sigma, sigma))]

    return Step(actions, 1, is_exact=False)


def _named(*names: str) -> Callable[[PixelOp, Size], dict[str, Any]]:
    """Return the first arguments of a change under v2's names."""
    return lambda change, size: dict(zip(names, change.arguments, strict=False))


_AFFINE_DRAWS = 6  # angle, translations, scale, shears


@of_pictures
def random_affine(transform: Any) -> Step:
    """Read `RandomAffine`."""
    mode, fill, center = mode_of(transform), fill_of(transform), transform.center
    degrees, scales = two(transform.degrees), two(transform.scale or (1, 1))
    share_x, share_y = two(transform.translate or (0, 0))
    shear = list(transform.shear or ()) + [0.0] * 4
    shear_x, shear_y = two(shear[:2]), two(shear[2:4])

    def actions(size: Size, draws: Draws) -> list[Action]:
        across, down = share_x * size[1], share_y * size[0]
        translate = [round(between(-across, across, draws[1])), round(between(-down, down, draws[2]))]
        turned = between(*degrees, draws[0]), translate, between(*scales, draws[3])
        sheared = [between(*shear_x, draws[4]), between(*shear_y, draws[5])]
        return [PixelOp("affine", (*turned, sheared, mode, fill, center))]

    return Step(actions, _AFFINE_DRAWS, moves=True, params=_named("angle", "translate", "scale", "shear"))


@of_pictures
def random_rotation(transform: Any) -> Step:
    """Read `RandomRotation`: an affine transform that only turns, for which Pillow's rotation gives the bytes."""
    if transform.expand:
        raise UnknownTransformError("it expands images, which then differ in size")
    mode, fill, center, degrees = mode_of(transform), fill_of(transform), transform.center, two(transform.degrees)

    def actions(size: Size, draws: Draws) -> list[Action]:
        return [PixelOp("rotate", (between(*degrees, draws[0]), mode, False, center, fill))]

    return Step(actions, _AFFINE_DRAWS, moves=True, params=_named("angle"))


@of_pictures
def random_perspective(transform: Any) -> Step:
    """Read `RandomPerspective`: its distortion is the largest move of a corner, as a share of half the image."""
    probability, distortion = float(transform.p), float(transform.distortion_scale)
    mode, fill = mode_of(transform), fill_of(transform)

    def actions(size: Size, draws: Draws) -> list[Action]:
        if draws[0] >= probability:
            return []
        height, width = size
        count_x, count_y = (int(distortion * (side // 2)) + 1 for side in (width, height))
        far_x, far_y = width - count_x, height - count_y
        starts = ((0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1))
        ends = [
            (x + int(draws[1 + 2 * number] * count_x), y + int(draws[2 + 2 * number] * count_y))
            for number, (x, y) in enumerate(((0, 0), (far_x, 0), (far_x, far_y), (0, far_y)))
        ]
        return [PixelOp("perspective", (None, None, mode, fill, coefficients(starts, ends)))]

    # The decision, then x and y of each corner.
    return Step(actions, 9, moves=True, params=lambda change, size: {"coefficients": change.arguments[-1]})


def coefficients(starts: Sequence[tuple[int, int]], ends: Sequence[tuple[int, int]]) -> list[float]:
    """Return the numbers of the perspective that moves four corners, solved by the function that torchvision uses."""
    equations: list[list[int]] = []
    for (x, y), (new_x, new_y) in zip(starts, ends, strict=True):
        equations.append([new_x, new_y, 1, 0, 0, 0, -x * new_x, -x * new_y])
        equations.append([0, 0, 0, new_x, new_y, 1, -y * new_x, -y * new_y])
    corners = torch.tensor(starts, dtype=torch.float64, device="cpu").view(8)
    found = torch.linalg.lstsq(torch.tensor(equations, dtype=torch.float64, device="cpu"), corners, driver="gels")
    numbers: list[float] = found.solution.to(torch.float32).tolist()
    return numbers


Inner = Sequence[Sequence[Step]]
"""The steps of each transform in a container."""


def random_apply(transform: Any, inner: Inner) -> Step:
    """Read `RandomApply`."""
    probability = float(transform.p)
    together = [step for steps in inner for step in steps]
    return _some_of([together], lambda draws: [0] if draws[0] < probability else [], 1)


def random_choice(transform: Any, inner: Inner) -> Step:
    """Read `RandomChoice`."""
    shares = list(transform.p or [1] * len(inner))
    bounds = [bound / sum(shares) for bound in itertools.accumulate(shares)]
    return _some_of(inner, lambda draws: [min(bisect(bounds, draws[0]), len(inner) - 1)], 1)


def random_order(transform: Any, inner: Inner) -> Step:
    """Read `RandomOrder`."""
    return _some_of(inner, lambda draws: sorted(range(len(inner)), key=draws.__getitem__), len(inner))


def _some_of(inner: Inner, choose: Callable[[Draws], Sequence[int]], num_choosing: int) -> Step:
    """Return a step that does some of several transforms.

    Args:
        choose: Random numbers -> the indices of the chosen transforms, in order.
        num_choosing: Random numbers needed by `choose`; those of all transforms follow.
    """

    def actions(size: Size, draws: Draws) -> list[Action]:
        decided: list[list[Action]] = []
        start = num_choosing
        for steps in inner:
            decided.append(decide(steps, size, draws[start:]))
            start += num_draws(steps)
        return [action for number in choose(draws[:num_choosing]) for action in decided[number]]

    every = [step for steps in inner for step in steps]
    is_exact = all(step.is_exact for step in every)
    return Step(actions, num_choosing + num_draws(every), moves=None, is_exact=is_exact)


Space = Mapping[str, tuple[Sequence[float], bool]]
"""The operations of an automatic augmentation: magnitudes (maybe none), and whether they get a sign."""

Chosen = tuple[str, int | None, float]
"""The name of an operation, the index of its magnitude (None: it needs none), and the random number for its sign."""


def _automatic(
    transform: Any, num_bins: int, choose: Callable[[Space, Draws], Iterable[Chosen]], num_choosing: int
) -> Step:
    """Return the step of an automatic augmentation.

    Args:
        num_bins: Number of magnitudes of an operation.
        choose: The operations for a size, and random numbers -> the chosen ones, in order.
        num_choosing: Random numbers needed by `choose`.
    """
    space_for, mode, fill = _space_for(transform, num_bins), mode_of(transform), fill_of(transform)

    def actions(size: Size, draws: Draws) -> list[Action]:
        found: list[Action] = []
        space = space_for(size)
        for name, place, draw in choose(space, draws):
            found += named_changes(name, _signed(space[name], place, draw), mode, fill)
        return found

    return Step(actions, num_choosing, moves=None)


def _signed(row: tuple[Sequence[float], bool], place: int | None, draw: float) -> float:
    """Return a magnitude of an operation's row, with a random sign if it gets one; 0 if it has none."""
    values, is_signed = row
    magnitude = values[place] if place is not None and values else 0.0
    return -magnitude if is_signed and draw < 0.5 else magnitude


def named_changes(name: str, magnitude: float, mode: InterpolationMode, fill: Any) -> list[PixelOp]:
    """Return the changes made by an operation of torchvision's automatic augmentations.

    Args:
        magnitude: The signed magnitude; for "Solarize" a threshold of 0 to 255.
    """
    angle = math.degrees(math.atan(magnitude))
    match name:
        case "Identity":
            return []
        case "ShearX":
            return [PixelOp("affine", (0.0, [0, 0], 1.0, [angle, 0.0], mode, fill, [0, 0]))]
        case "ShearY":
            return [PixelOp("affine", (0.0, [0, 0], 1.0, [0.0, angle], mode, fill, [0, 0]))]
        case "TranslateX":
            return [PixelOp("affine", (0.0, [int(magnitude), 0], 1.0, [0.0, 0.0], mode, fill, None))]
        case "TranslateY":
            return [PixelOp("affine", (0.0, [0, int(magnitude)], 1.0, [0.0, 0.0], mode, fill, None))]
        case "Rotate":
            return [PixelOp("rotate", (magnitude, mode, False, None, fill))]
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
    return _drawn_operations(transform, 1, None)


@of_pictures
def rand_augment(transform: Any) -> Step:
    """Read `RandAugment`."""
    return _drawn_operations(transform, transform.num_ops, transform.magnitude)


def _drawn_operations(transform: Any, count: int, magnitude: int | None) -> Step:
    """Return the step that draws `count` operations, and for each the index of its magnitude unless one is given."""

    def choose(space: Space, draws: Draws) -> Iterator[Chosen]:
        names = list(space)
        for start in range(0, 3 * count, 3):
            name = names[int(draws[start] * len(names))]
            place = magnitude if magnitude is not None else int(draws[start + 1] * len(space[name][0]))
            yield name, place, draws[start + 2]

    return _automatic(transform, transform.num_magnitude_bins, choose, 3 * count)


@of_pictures
def auto_augment(transform: Any) -> Step:
    """Read `AutoAugment`: one of many pairs of operations, each with a probability."""
    policies = getattr(transform, "policies", None) or getattr(transform, "_policies", None)
    if policies is None:
        raise UnknownTransformError("this torchvision keeps its policies elsewhere")

    def choose(space: Space, draws: Draws) -> Iterator[Chosen]:
        for number, (name, probability, place) in enumerate(policies[int(draws[0] * len(policies))]):
            if draws[1 + number] <= probability:
                yield name, place, draws[3 + number]

    return _automatic(transform, 10, choose, 5)


def _space_for(transform: Any, num_bins: int) -> Callable[[Size], Space]:
    """Return the function from a size to torchvision's own table of operations and magnitudes."""
    solarize = 255.0 if is_v2(transform) else 1.0  # v2 has thresholds from 0 to 1

    @functools.lru_cache(64)
    def found(size: Size) -> Space:
        table: dict[str, tuple[Sequence[float], bool]] = {}
        for name, (magnitudes, is_signed) in _space(transform, num_bins, size).items():
            numbers = [] if magnitudes is None or magnitudes.ndim == 0 else [float(value) for value in magnitudes]
            table[name] = ([solarize * value for value in numbers] if name == "Solarize" else numbers), bool(is_signed)
        return table

    try:
        for name, (magnitudes, _) in found((224, 224)).items():
            named_changes(name, magnitudes[0] if magnitudes else 0.0, InterpolationMode.NEAREST, None)
    except (AttributeError, KeyError, TypeError, ValueError) as err:  # the table is private to torchvision
        raise UnknownTransformError("this torchvision has another table of its magnitudes") from err
    return found


def _space(transform: Any, num_bins: int, size: Size) -> dict[str, Any]:
    if is_v2(transform):
        space = transform._AUGMENTATION_SPACE
        return {name: (make(num_bins, *size), is_signed) for name, (make, is_signed) in space.items()}
    sizes = () if isinstance(transform, v1.TrivialAugmentWide) else (size,)
    found: dict[str, Any] = transform._augmentation_space(num_bins, *sizes)
    return found
