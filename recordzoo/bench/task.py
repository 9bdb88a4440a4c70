"""The task of a comparison: the loaders, the images, and the transforms; no torch."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from recordzoo.errors import ArgumentError

FILES, FILES_OURS = "DataLoader, files", "RecordLoader, files"
STOCK, EXACT, FAST = "DataLoader, records", "RecordLoader, records", "RecordLoader, records, fast"

DEFAULT = "RandomResizedCrop(224), RandomHorizontalFlip(), PILToTensor()"


@dataclass(frozen=True)
class Task:
    """The data and the options of a comparison.

    Attributes:
        tree: A tree of class folders. None: only records are measured.
        records: A record set, usually of the tree. None: only files are measured.
        split: A split of the record set. None: all images.
        transform: See `load_transform`.
        workers: Processes of DataLoader, threads of RecordLoader.
        num_images: Maximum number of images, chosen at random.
    """

    tree: Path | None
    records: Path | None
    split: str | None = None
    transform: str | None = None
    batch_size: int = 64
    workers: int = 2
    num_images: int = 500

    @property
    def loaders(self) -> list[str]:
        """The loaders that can be compared."""
        return [*((FILES, FILES_OURS) if self.tree else ()), *((STOCK, EXACT, FAST) if self.records else ())]


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
