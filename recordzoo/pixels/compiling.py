"""Getting the compiled code: compiled once for a machine, then loaded from numba's cache."""

import importlib.util

from recordzoo.pixels.compiled import Compiled
from recordzoo.pixels.once import Once

DISABLED = "NUMBA_DISABLE_JIT is set"


def compiled_code() -> Compiled | None:
    """Return the compiled code; None without numba."""
    found = _loaded()
    return found if isinstance(found, Compiled) else None


def why_not_compiled() -> str:
    """Say why `compiled_code` returns None; "" if it does not."""
    found = _loaded()
    return found if isinstance(found, str) else ""


def _load() -> Compiled | str:
    """Import numba and compile; return the reason if that is impossible."""
    if importlib.util.find_spec("numba") is None:  # no wheel for this machine, or not wanted
        return "numba is not installed"
    try:
        from numba import config
    except Exception as err:  # noqa: BLE001 - no LLVM, NumPy too new; anything, after an interrupted import
        return f"numba cannot be imported ({type(err).__name__}: {err})"
    if config.DISABLE_JIT:  # type: ignore[attr-defined]  # it is set when numba reads its environment
        return DISABLED
    return Compiled()


_loaded: Once[Compiled | str] = Once(_load, "this process was forked while numba was compiling")
