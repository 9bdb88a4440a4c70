"""The zoo: one folder for each source of datasets, with their facts, how they become records, and their classes.

A class is imported when somebody first asks for it, because torch takes seconds to load.
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
