"""The zoo: for each source a TOML file with the facts, a module with the classes and, if needed, one with the recipe.

A class is imported on first access, because torch takes seconds to load.
"""

import importlib
from typing import Any

from recordzoo import catalogue


def __dir__() -> list[str]:
    return [*globals(), *catalogue.class_modules()]


# Any: a class.
def __getattr__(name: str) -> Any:
    module = catalogue.class_modules().get(name) if name.endswith("Record") else None
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
