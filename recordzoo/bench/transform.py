"""The transforms of a measurement: the user's, or the usual ones of training."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from recordzoo.errors import ArgumentError

DEFAULT = "RandomResizedCrop(224), RandomHorizontalFlip(), PILToTensor()"


def load_transform(name: str | None) -> Callable[..., Any]:
    """Import a transform; without a name, make `DEFAULT`.

    Args:
        name: "module:name" as Python would import it in the current directory, or "file.py:name".

    Raises:
        ArgumentError: It is not called like this, cannot be imported, is not there, or cannot be called.
    """
    if name is None:
        from torchvision import transforms as T

        usual: Callable[..., Any] = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.PILToTensor()])
        return usual
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise ArgumentError(f"--transform {name} names no transform; write MODULE:NAME or FILE.py:NAME.")
    try:
        module = _import(place)
    except (Exception, SystemExit) as err:
        text = f"--transform {name}: {place} cannot be imported: {type(err).__name__}: {err}"
        raise ArgumentError(text) from err
    if not hasattr(module, attribute):
        raise ArgumentError(f"--transform {name}: there is no {attribute!r} in {place}.")
    transform: object = getattr(module, attribute)
    if not callable(transform):
        kind = type(transform).__name__
        raise ArgumentError(f"--transform {name}: {attribute!r} is of type {kind}, which cannot be called.")
    return transform


def _import(place: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())  # which a console script's path lacks
    if not place.endswith(".py"):
        return importlib.import_module(place)
    path = Path(place)
    sys.path.insert(0, str(path.absolute().parent))  # for its own imports
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pickle and dataclasses look there
    spec.loader.exec_module(module)
    return module
