"""Plans: the transforms of a dataset that a loader runs itself.

Compiled code stands for functions of torchvision, torch and Pillow. `replaced` notices those that a program replaced: a
function is compared with the one that was there at import, and must be its package's own: a program may have replaced
it before. Functions that only make, change or show an object do not count: a plan is read from the finished object.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFile, ImageFilter, ImageOps, JpegImagePlugin
from torch import nn
from torch.utils.data import ConcatDataset, Subset
from torchvision.datasets import folder
from torchvision.transforms import v2

from recordzoo.errors import ArgumentError
from recordzoo.images.decode import ArrayFrame, Frame

# Any, in all of this module: images, transforms, attributes of modules and classes.

Size = tuple[int, int]
"""Height and width, in torchvision's order."""

Int64s = NDArray[np.int64]

Draws = Sequence[float]
"""Random numbers from 0 to 1, 1 excluded."""

Decided = tuple[list["Action"], dict[str, Any] | None]
"""Actions on an image, and the parameters by which boxes and masks follow the first of them; None if they stay."""

Arithmetic = Literal["Pillow", "torch", "float"]
"""How torchvision resamples bytes: PIL images with Pillow's integers, tensors with torch's (v2) or as float32 (v1)."""


@dataclass(slots=True)  # not frozen: twice as fast to create, and there are many
class Crop:
    """Crop a box. Pixels outside the image get the color `fill`."""

    top: int
    left: int
    height: int
    width: int
    fill: tuple[int, int, int] = (0, 0, 0)

    def is_inside(self, size: Size) -> bool:
        """Whether the box lies within an image of this height and width."""
        return min(self.top, self.left) >= 0 and self.top + self.height <= size[0] and self.left + self.width <= size[1]

    def contains(self, size: Size) -> bool:
        """Whether an image of this height and width lies within the box."""
        return max(self.top, self.left) <= 0 and self.top + self.height >= size[0] and self.left + self.width >= size[1]


@dataclass(frozen=True, slots=True)
class Resampling:
    """The resampling method set in a torchvision transform.

    Attributes:
        resize: torchvision's function: (PIL image or tensor, [height, width]) -> the resized image.
        mode: "bilinear" or "bicubic" for the antialiased filter of that name; otherwise "".
        arithmetic: The library that defines the bytes; "Pillow" if the image is a PIL image at this point.
    """

    resize: Callable[[Any, list[int]], Any]  # Any: a PIL image or a tensor, as given
    mode: str
    arithmetic: Arithmetic


@dataclass(frozen=True, slots=True)
class Resize:
    """Resample to a size."""

    height: int
    width: int
    resampling: Resampling


@dataclass(frozen=True, slots=True)
class Flip:
    """Mirror left and right, or top and bottom."""

    is_vertical: bool = False


@dataclass(slots=True)  # as Crop
class PixelOp:
    """Change the pixels of an RGB image, and not its size.

    Attributes:
        name: The name of a pixel operation in `table.PIXEL_OPS`.
        arguments: The arguments of torchvision's function, after the image.
    """

    name: str
    arguments: tuple[Any, ...] = ()  # Any: numbers and lists of numbers


@dataclass(slots=True)  # as Crop
class Erase:
    """Set a box of the finished image to one value for each channel."""

    top: int
    left: int
    height: int
    width: int
    values: tuple[float, float, float]


Action = Crop | Resize | Flip | PixelOp | Erase


@dataclass(frozen=True)
class Step:
    """A transform of an image, read from torchvision's.

    Attributes:
        actions: Decides the actions on an image of a size, from its random numbers. A ValueError says in torchvision's
            words that the image is too small.
        num_draws: Random numbers per image.
        result: Returns the size of the results from that of the images; None for either: it differs between images.
            Without such a function the size of every image stays the same.
        moves: Whether boxes and masks move with the image; None: they cannot.
        params: Returns the parameters of v2's `transform` for boxes and masks, from the first action and the size of
            the image; without an action they stay where they are.
        is_exact: Whether compiled code gives the bytes of Pillow and torchvision.
        loses_info: Whether the result is a new image in torchvision, without what the file says beside the pixels.
        decide_many: Decides for many images of one size, a row of random numbers for each; only for steps that crop or
            flip at random, and fill with black. Row y of the result is row y0 + dy * y of the image: returns (y0, x0)
            and (dy, dx), int64 [n, 2].
        of_target: Decides as `decide_with`, if the boxes of the target count.
    """

    actions: Callable[[Size, Draws], list[Action]]
    num_draws: int = 0
    result: Callable[[Size | None], Size | None] | None = None
    moves: bool | None = False
    params: Callable[[Any, Size], dict[str, Any]] = lambda action, size: {}
    is_exact: bool = True
    loses_info: bool = False
    decide_many: Callable[[Size, NDArray[np.float64]], tuple[Int64s, Int64s]] | None = None
    of_target: Callable[[Any, Size, Draws], Decided] | None = None

    def output(self, size: Size | None) -> Size | None:
        """Return the size of the result; None if it differs between images."""
        return size if self.result is None else self.result(size)

    def decide_with(self, target: Any, size: Size, draws: Draws) -> Decided:
        """Decide the actions on an image with a target; return them with their `params`."""
        if self.of_target is not None:
            return self.of_target(target, size, draws)
        actions = self.actions(size, draws)
        return actions, self.params(actions[0], size) if actions else None


def decide(steps: Sequence[Step], size: Size, draws: Draws) -> list[Action]:
    """Return all actions on an image of a size."""
    actions: list[Action] = []
    start = 0
    for step in steps:
        found = step.actions(size, draws[start : start + step.num_draws])
        start += step.num_draws
        size = size_after(found, size)
        actions += found
    return actions


def size_after(actions: Sequence[Action], size: Size) -> Size:
    """Return the size of an image of `size` after these actions."""
    for action in actions:
        if isinstance(action, Crop | Resize):
            size = action.height, action.width
    return size


def num_draws(steps: Sequence[Step]) -> int:
    """Return the number of random numbers for all steps."""
    return sum(step.num_draws for step in steps)


def between(low: float, high: float, draw: float) -> float:
    """Interpolate linearly from `low` to `high`."""
    return low + (high - low) * draw


def two(values: Iterable[Any]) -> tuple[float, float]:
    """Return a pair of numbers."""
    first, second = map(float, values)
    return first, second


ATTEMPTS = 10
"""torchvision's attempts to find a box of a random area and aspect ratio."""

Transform = Callable[[Any], Any]

Operation = tuple[Literal["div", "mul", "sub"], float | tuple[float, ...]]
"""An operation, with one number or one per channel."""


@dataclass(frozen=True)
class Pointwise:
    """Operations on float32 values: divide, normalize. The results are torchvision's, to the last bit.

    Attributes:
        operations: None for images that stay uint8.
    """

    operations: tuple[Operation, ...] | None = None

    @property
    def dtype(self) -> torch.dtype:
        """uint8 or float32."""
        return torch.uint8 if self.operations is None else torch.float32

    def then(self, *operations: Operation) -> "Pointwise":
        """Return a copy with more operations; its results are float."""
        return Pointwise((*(self.operations or ()), *operations))

    def apply_(self, images: torch.Tensor) -> torch.Tensor:
        """Do the operations in place and return the images.

        Args:
            images: float32 [..., 3, H, W], contiguous or channels-last.
        """
        if not self.operations:
            return images
        # In channels-last memory the last dimension, 3 long, would be broadcast in the innermost loop: ten times slower
        # than a row of W times 3.
        is_last = images.stride(-3) == 1 and images.shape[-3] > 1
        values = images.movedim(-3, -1).flatten(-2) if is_last else images
        operand_of = _operand if images.device.type == "cpu" else _operand.__wrapped__  # streams would share it
        width = images.shape[-1] if is_last else 0
        for name, operand in self.operations:
            is_one = isinstance(operand, float)
            getattr(values, f"{name}_")(operand if is_one else operand_of(operand, width, images.device))
        return images


@functools.lru_cache(256)
def _operand(values: tuple[float, ...], width: int, device: torch.device) -> torch.Tensor:
    """Return a number for each channel, for images [3, H, W]; with a width, for rows [3 * W] of channels-last ones."""
    operand = torch.tensor(values, dtype=torch.float32, device=device)
    return operand.repeat(width) if width else operand[:, None, None]


@dataclass(frozen=True)
class Plan:
    """The transforms that a loader runs itself, and those that run as written.

    Attributes:
        steps: Operations on the pixels, as bytes; then boxes to erase.
        is_tensor: Whether a transform converts the image to a tensor; otherwise `rest` gets a PIL image.
        is_image: Whether that tensor is a `tv_tensors.Image`.
        pointwise: Operations on the values after the steps.
        size: Height and width of the result; None if images differ in size.
        rest: The first unknown transform and those after it; they run as written.
        ending: A plan for the known transforms at the end of `rest`, if there are any.
        erases: Whether boxes of the finished values are erased.
        is_joint: Whether image and target are transformed together.
        fused: The transforms that the steps were read from.
        reason: Why the first transform of `rest` is unknown.
    """

    steps: tuple[Step, ...] = ()
    is_tensor: bool = False
    is_image: bool = False
    pointwise: Pointwise = field(default_factory=Pointwise)
    size: Size | None = None
    rest: tuple[Transform, ...] = ()
    ending: "Plan | None" = None
    erases: bool = False
    is_joint: bool = False
    fused: tuple[Transform, ...] = ()
    reason: str = ""

    @functools.cached_property
    def num_own_draws(self) -> int:
        """Random numbers per image for the steps."""
        return num_draws(self.steps)

    @functools.cached_property
    def num_draws(self) -> int:
        """Random numbers per image; those of the ending come last."""
        return self.num_own_draws + (self.ending.num_draws if self.ending else 0)

    @property
    def is_whole(self) -> bool:
        """Whether the plan produces tensors and leaves no transforms."""
        return self.is_tensor and not self.rest


StepReader = Callable[[Plan, Any], Plan]
"""Returns a plan extended by a transform.

Raises:
    UnknownTransformError: The transform, or one of its options, is not supported at this point.
"""


@dataclass(frozen=True)
class Views:
    """The views of an image, one per plan.

    Attributes:
        plans: One plan or more.
        is_list: Whether a sample has a list of views; otherwise it has the single view.
    """

    plans: tuple[Plan, ...]
    is_list: bool = False


class UnknownTransformError(Exception):
    """Why a transform is not fused."""


def with_step(plan: Plan, step: Step, *, erases: bool = False) -> Plan:
    """Return a plan with one more step."""
    if plan.erases:
        raise UnknownTransformError("boxes of the image are erased by then")
    return replace(plan, steps=(*plan.steps, step), size=step.output(plan.size), erases=erases)


def of_pictures(read: Callable[[Any], Step]) -> StepReader:
    """Restrict a reader to PIL images: torchvision computes other bytes for tensors."""

    def reader(plan: Plan, transform: Any) -> Plan:
        if plan.is_tensor:
            raise UnknownTransformError("the image is a tensor by then; before ToTensor or ToImage it would be known")
        return with_step(plan, read(transform))

    return reader


def refuse_other_dtype() -> None:
    """Refuse a transform whose result depends on torch's default dtype, if that is another one than usual."""
    if torch.get_default_dtype() is not torch.float32:
        raise UnknownTransformError("torch's default dtype is not float32")


def is_v2(transform: Any) -> bool:
    """Whether a transform is one of `torchvision.transforms.v2`."""
    return type(transform).__module__.startswith(v2.__name__)


class MultiView:
    """Apply several transforms to one image; return the list of views.

    A `RecordLoader` decodes the image once for all views. A batch then has a list of tensors, one per view.

    Args:
        views: The transforms.

    Raises:
        ArgumentError: `views` is not a list of transforms.

    Examples:
        >>> double = MultiView([lambda x: x + 1, lambda x: x * 10])
        >>> double(4)
        [5, 40]
    """

    def __init__(self, views: Sequence[Transform]) -> None:
        if not isinstance(views, Iterable) or not all(map(callable, views)):
            raise ArgumentError(f"views={views!r} is no list of transforms, one for each view.")
        self.views = list(views)

    def __call__(self, image: Any) -> list[Any]:
        """Return the views of an image."""
        return [view(image) for view in self.views]

    def image_views(self) -> Sequence[Transform]:
        """Return the transforms, in the order of the list that a call returns: a loader decodes the image once."""
        return self.views

    def __repr__(self) -> str:
        return f"MultiView({self.views!r})"


def views_of(transform: Any) -> Sequence[Transform] | None:
    """Return the transforms of a transform with several views; None if it has one.

    A class with a method `image_views` says so. A subclass with a call of its own may do something else than call them.
    """
    for base in type(transform).__mro__:
        if "image_views" in vars(base):
            return list(transform.image_views())
        if not {"__call__", "forward"}.isdisjoint(vars(base)):
            break
    return None


def decoded_once(frame: Frame, views: Sequence[list[Action]]) -> Frame:
    """Decode the part of an image that its views need, and shift their first crops into that part.

    Returns:
        The pixels of the smallest box with the first crops of all views, or of the whole image if a view needs it.
    """
    crops = [actions[0] for actions in views if actions]
    size = frame.height, frame.width
    if len(crops) < len(views) or not all(isinstance(crop, Crop) and crop.is_inside(size) for crop in crops):
        return ArrayFrame(frame.pixels(), frame.info)
    inside = [crop for crop in crops if isinstance(crop, Crop)]
    top, left = min(crop.top for crop in inside), min(crop.left for crop in inside)
    bottom = max(crop.top + crop.height for crop in inside)
    right = max(crop.left + crop.width for crop in inside)
    pixels = frame.pixels((left, top, right - left, bottom - top))
    for actions, crop in zip(views, inside, strict=True):
        actions[0] = Crop(crop.top - top, crop.left - left, crop.height, crop.width)
    return ArrayFrame(pixels, frame.info)


_PACKAGES = {"torchvision", "torch", "PIL", "recordzoo"}

_BUILTIN = {"builtins", "typing"}

_NOT_CALLED = {"__init__", "__init_subclass__", "__new__", "__repr__", "__setstate__", "extra_repr"}

ITEMS = ("__getitem__", "__getitems__")
"""The functions by which a dataset gives its samples."""

Namespace = type | ModuleType

_NAMED: dict[Namespace, tuple[str, ...]] = {
    Image: ("open", "new", "merge", "blend", "composite", "fromarray", "frombuffer", "frombytes"),
    Image.Image: (
        *("__array_interface__", "_new", "convert", "copy", "crop", "filter", "getbands", "load", "point", "reduce"),
        *("resize", "rotate", "split", "tobytes", "transform", "transpose"),
    ),
    ImageFile.ImageFile: ("load", "load_prepare", "load_end"),
    JpegImagePlugin.JpegImageFile: ("_open", "load_read"),
    **dict.fromkeys((ImageEnhance.Brightness, ImageEnhance.Color, ImageEnhance.Contrast), ("enhance",)),
    ImageEnhance.Sharpness: ("enhance",),
    folder: ("default_loader", "pil_loader"),
    nn.Module: ("__call__", "_wrapped_call_impl", "_call_impl", "__getattr__", "__getattribute__"),
    **dict.fromkeys((Subset, ConcatDataset), ITEMS),
}
"""Functions of classes to which programs add others: only these lead to a sample."""

_originals: dict[Namespace, tuple[tuple[str, ...] | None, dict[str, Any]]] = {}

_foreign: list[str] = []


def watch(place: Namespace, names: tuple[str, ...] | None = None) -> None:
    """Keep the functions that a module or class has now.

    Args:
        names: Those to keep. Default: all, also those that a class gets later.
    """
    if place in _originals:
        return
    found = _functions(place, names)
    if isinstance(place, ModuleType):  # which gets more when its other modules are imported
        names = tuple(found)
    _originals[place] = names, found
    _foreign.extend(f"{place.__name__}.{name}" for name, value in found.items() if _is_foreign(place, value))


def replaced() -> str:
    """Say which function is another one than its package's own; "" if none is."""
    changed = _foreign[:1]
    for place, (names, known) in _originals.items():
        now = _functions(place, names)
        if now != known:
            changed += [f"{place.__name__}.{name}" for name in now | known if now.get(name) is not known.get(name)]
    return f"{changed[0]} was replaced" if changed else ""


def _functions(place: Namespace, names: tuple[str, ...] | None) -> dict[str, Any]:
    """Return functions and modules that are stored in a module or class, by name."""
    if names is not None:
        return {name: vars(place).get(name) for name in names}
    return {name: value for name, value in vars(place).items() if name not in _NOT_CALLED and _is_function(value)}


def _is_function(value: Any) -> bool:
    if isinstance(value, staticmethod | classmethod | property | ModuleType):
        return True
    return callable(value) and not isinstance(value, type)


def _is_foreign(place: Namespace, value: Any) -> bool:
    """Whether a function was defined neither where it is stored nor in a package that may be there."""
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    if function is None or isinstance(function, ModuleType):
        return False
    packages = _PACKAGES | {_package(getattr(place, "__module__", place.__name__))}
    if isinstance(function, FunctionType):  # what wraps a function takes its __module__, but not its globals
        found = _package(function.__globals__.get("__name__") or "")
        return found not in packages and (found == "unittest" or found not in sys.stdlib_module_names)
    return _package(type(function).__module__) not in packages | _BUILTIN


def _package(module: str) -> str:
    return module.partition(".")[0]


def _watch_all() -> None:
    modules = [module for name, module in sorted(sys.modules.items()) if f"{name}.".startswith(_TRANSFORMS)]
    for module in (*modules, ImageOps, ImageFilter):
        watch(module)
    for place, names in _NAMED.items():
        watch(place, names)
    kinds = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    for kind in (nn.Identity, *(each for each in kinds if each.__module__.startswith(_TRANSFORMS))):
        watch(kind)


_TRANSFORMS = "torchvision.transforms."

_watch_all()
