"""What our classes that torchvision lacks are compared with: readings of the extracted tree, as people write them."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from torchvision.datasets import ImageFolder, VisionDataset
from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader
from torchvision.datasets.utils import verify_str_arg


class Reading(VisionDataset):  # type: ignore[misc]  # torchvision is untyped
    """A dataset whose `read` reads the tree and returns the names of the classes, if it has classes.

    The constructor takes the root, what `read` takes, torchvision's `options`, and what `read` takes after a ``*``.
    Each argument of `read` becomes an attribute; what the class's own
    keywords name must be one of their values, or several of them.
    """

    _choices: ClassVar[Mapping[str, Sequence[str]]] = {}
    _options: ClassVar[Mapping[str, Any]] = {"transform": None, "target_transform": None, "download": False}

    def __init_subclass__(cls, **choices: Sequence[str]) -> None:
        cls._choices = choices or cls._choices
        if "read" not in vars(cls):
            return
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        this, root, *own = inspect.signature(cls.read).parameters.values()
        before = [each for each in own if each.kind is kind]
        options = [inspect.Parameter(name, kind, default=default) for name, default in cls._options.items()]
        after = [each.replace(kind=kind) for each in own if each not in before]
        signature = inspect.Signature([this, root, *before, *options, *after])

        # Any: arguments of any type.
        def begin(self: Reading, *args: Any, **kwargs: Any) -> None:
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            self.begin(
                bound.arguments["root"], {each.name: bound.arguments[each.name] for each in own}, bound.arguments
            )

        begin.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect` reads
        cls.__init__ = begin  # type: ignore[method-assign]

    # Any: arguments of any type.
    def begin(self, root: Any, own: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Check and keep the arguments, and read."""
        defaults = inspect.signature(self.read).parameters
        for name, value in own.items():
            for each in value if isinstance(value, list) else [value]:
                if name in self._choices and each is not defaults[name].default:
                    verify_str_arg(each, name, self._choices[name])
            setattr(self, name, value)
        transforms = ("transforms", "transform", "target_transform")
        VisionDataset.__init__(self, root, **{name: options[name] for name in transforms if name in options})
        if (classes := self.read(Path(root), **own)) is not None:
            self.classes = classes
            self.class_to_idx = {name: label for label, name in enumerate(classes)}

    # Any: arguments of any type.
    def read(self, root: Path, *args: Any, **kwargs: Any) -> list[str] | None:
        raise NotImplementedError


class Files(Reading, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """A dataset whose `read` assigns `samples`: pairs of path and label, as ImageFolder has them."""

    _options: ClassVar[Mapping[str, Any]] = {**Reading._options, "loader": default_loader}

    # Any: as above.
    def begin(self, root: Any, own: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.loader, self.extensions = options["loader"], IMG_EXTENSIONS
        super().begin(root, own, options)
        self.imgs, self.targets = self.samples, [label for _, label in self.samples]


class Pairs(Reading):
    """A dataset whose `read` assigns `images`, and what belongs to them; transforms take an image with its target."""

    _options: ClassVar[Mapping[str, Any]] = {
        **{"transform": None, "target_transform": None, "transforms": None},
        "download": False,
    }

    def __len__(self) -> int:
        return len(self.images)
