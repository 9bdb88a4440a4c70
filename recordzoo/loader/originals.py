"""Notice functions of torchvision, torch and Pillow that a program replaced: compiled code stands for the originals.

A function is compared with the one that was there at import, and must be its package's own: a program may have replaced
it before. Functions that only make, change or show an object do not count: a plan is read from the finished object.
"""

import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from PIL import Image, ImageEnhance, ImageFile, ImageFilter, ImageOps, JpegImagePlugin
from torch import nn
from torch.utils.data import ConcatDataset, Subset
from torchvision.datasets import folder

# Any, in all of this module: attributes of modules and classes.

_PACKAGES = {"torchvision", "torch", "PIL", "recordzoo"}
_BUILTIN = {"builtins", "typing"}
_CALLED_OF_MODULE = ("__call__", "_wrapped_call_impl", "_call_impl", "__getattr__", "__getattribute__")
"""The functions of torch's `Module` that run when a transform is called."""

_NOT_CALLED = {"__init__", "__init_subclass__", "__new__", "__repr__", "__setstate__", "extra_repr"}

_OF_PICTURES: dict[Any, tuple[str, ...]] = {
    Image: ("open", "new", "merge", "blend", "composite", "fromarray", "frombuffer", "frombytes"),
    Image.Image: (
        *("__array_interface__", "_new", "convert", "copy", "crop", "filter", "getbands", "load", "point", "reduce"),
        *("resize", "rotate", "split", "tobytes", "transform", "transpose"),
    ),
    ImageFile.ImageFile: ("load", "load_prepare", "load_end"),
    JpegImagePlugin.JpegImageFile: ("_open", "load_read"),
    **dict.fromkeys((ImageEnhance.Brightness, ImageEnhance.Color, ImageEnhance.Contrast), ("enhance",)),
    ImageEnhance.Sharpness: ("enhance",),
}

Namespace = type | ModuleType


class Originals:
    """Functions as they were when this was made.

    Args:
        functions: The module or class of each, and its name there.
    """

    def __init__(self, functions: Iterable[tuple[Namespace, str]]) -> None:
        self._functions = list(functions)
        self._look()

    def _look(self) -> None:
        self._known = [(place, name, _homes(place), _stored(_homes(place), name)) for place, name in self._functions]
        self._has_foreign = any(_is_foreign(name, homes, value) for _, name, homes, value in self._known)

    def replaced(self) -> str:
        """Say which function is another one than the original; "" if none is."""
        if self._has_foreign:  # it may have been put back
            self._look()
        for place, name, homes, value in self._known:
            if _stored(homes, name) is not value or (self._has_foreign and _is_foreign(name, homes, value)):
                return f"{place.__name__}.{name} was replaced"
        return ""


_called: dict[type, Originals] = {}
_items: dict[type, Originals] = {}


def called_of(kind: type) -> Originals:
    """Return what runs when an object of a class is called; all of a class but torch's own `Module`."""
    if kind not in _called:
        names = {name for base in kind.__mro__ if base is not nn.Module for name in _functions(base)}
        _called[kind] = Originals((kind, name) for name in sorted(names - _NOT_CALLED | {*_CALLED_OF_MODULE}))
    return _called[kind]


def items_of(kind: type) -> Originals:
    """Return the functions by which a dataset of a class gives its samples."""
    if kind not in _items:
        _items[kind] = Originals((kind, name) for name in ("__getitem__", "__getitems__"))
    return _items[kind]


def _functions(place: Namespace) -> Iterator[str]:
    """Yield the names of functions and modules in a module or class."""
    for name, value in vars(place).items():
        if isinstance(value, ModuleType) or (_function(value) is not None and not isinstance(value, type)):
            yield name


def _function(value: Any) -> Any:
    """Return the function of a method or property; None for what cannot be called."""
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    return value if callable(value) else None


def _homes(place: Namespace) -> tuple[Any, ...]:
    """Return a module, or a class and its bases."""
    return getattr(place, "__mro__", (place,))


def _stored(homes: tuple[Any, ...], name: str) -> Any:
    """Return an attribute as the first of several modules or classes stores it; None if none has it."""
    for home in homes:
        if name in home.__dict__:
            return home.__dict__[name]
    return None


def _is_foreign(name: str, homes: tuple[Any, ...], value: Any) -> bool:
    """Whether a function was defined neither where it is stored nor in a package that may be there."""
    if value is None or isinstance(value, ModuleType | type):
        return False
    home = next(home for home in homes if name in home.__dict__)
    packages = _PACKAGES | {_package(getattr(home, "__module__", home.__name__))}
    function = _function(value)
    if isinstance(function, FunctionType):  # what wraps a function takes its __module__, but not its globals
        found = _package(function.__globals__.get("__name__") or "")
        return found not in packages and (found == "unittest" or found not in sys.stdlib_module_names)
    return _package(type(function).__module__) not in packages | _BUILTIN


def _package(module: str) -> str:
    return module.partition(".")[0]


_modules = [module for name, module in sorted(sys.modules.items()) if f"{name}.".startswith("torchvision.transforms.")]
functions = Originals((module, name) for module in _modules for name in _functions(module))
"""Functions of torchvision that transforms call."""

pictures = Originals(
    [
        *((place, name) for place, names in _OF_PICTURES.items() for name in names),
        *((module, name) for module in (ImageOps, ImageFilter) for name in _functions(module)),
        *((folder, name) for name in ("default_loader", "pil_loader")),
        *((kind, name) for kind in (Subset, ConcatDataset) for name in ("__getitem__", "__getitems__")),
    ]
)
"""Functions that open, decode and change PIL images, and those that lead to a sample."""
