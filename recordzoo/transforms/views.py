"""Several views of one image, as in DINO and SimCLR; the image is decoded once for all of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from recordzoo.errors import ArgumentError
from recordzoo.images.frames import ArrayFrame, Frame
from recordzoo.transforms.steps import Action, Crop

View = Callable[[Any], Any]


@runtime_checkable
class HasViews(Protocol):
    """A transform that returns several views of an image; a loader decodes the image once for all of them.

    Calling it with an image must return a list with the result of each view, in the order of `image_views`.
    """

    def __call__(self, image: Any) -> list[Any]:
        """Return the views of an image."""

    def image_views(self) -> Sequence[View]:
        """Return the transform of each view."""


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

    def __init__(self, views: Sequence[View]) -> None:
        if not isinstance(views, Iterable) or not all(map(callable, views)):
            raise ArgumentError(f"views={views!r} is no list of transforms, one for each view.")
        self.views = list(views)

    def __call__(self, image: Any) -> list[Any]:
        """Return the views of an image."""
        return [view(image) for view in self.views]

    def image_views(self) -> Sequence[View]:
        """Return the transforms; see `HasViews`."""
        return self.views

    def __repr__(self) -> str:
        return f"MultiView({self.views!r})"


def views_of(transform: Any) -> Sequence[View] | None:
    """Return the transforms of a transform with several views; None if it has one."""
    if not isinstance(transform, HasViews):
        return None
    # A subclass that overrides __call__ may do something else than call its views.
    owners = [_owner(type(transform), name) for name in ("image_views", "__call__", "forward")]
    return list(transform.image_views()) if owners[0] <= min(owners[1:]) else None


def _owner(kind: type, name: str) -> int:
    """Return the position, in the class's method resolution order, of the class that defines a method."""
    return next((place for place, base in enumerate(kind.__mro__) if name in vars(base)), len(kind.__mro__))


def decoded_once(frame: Frame, views: Sequence[list[Action]]) -> Frame:
    """Decode the part of an image that its views need, and shift their first crops into that part.

    Returns:
        The pixels of the smallest box with the first crops of all views, or of the whole image if a view needs it.
    """
    crops = [actions[0] for actions in views if actions]
    size = frame.height, frame.width
    if len(crops) < len(views) or not all(isinstance(crop, Crop) and crop.is_inside(size) for crop in crops):
        return ArrayFrame(frame.pixels())
    inside = [crop for crop in crops if isinstance(crop, Crop)]
    top, left = min(crop.top for crop in inside), min(crop.left for crop in inside)
    bottom = max(crop.top + crop.height for crop in inside)
    right = max(crop.left + crop.width for crop in inside)
    pixels = frame.pixels((left, top, right - left, bottom - top))
    for actions, crop in zip(views, inside, strict=True):
        actions[0] = Crop(crop.top - top, crop.left - left, crop.height, crop.width)
    return ArrayFrame(pixels)
