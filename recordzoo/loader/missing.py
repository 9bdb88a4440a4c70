"""Packages that would make a loader faster and are missing: logged once, and listed by `RecordLoader.explain`."""

import logging
import os

from recordzoo.images.turbojpeg import how_to_install_library, library
from recordzoo.loader.source import BatchSource
from recordzoo.pixels.compiling import DISABLED, OFF, why_not_compiled
from recordzoo.system.wheels import how_to_install, together

logger = logging.getLogger("recordzoo")

_said: list[str] = []


def missing(source: BatchSource) -> str:
    """Name the missing packages that would make these samples faster, and how to install them; "" if none."""
    reasons: list[str] = []
    cures: list[str] = []
    why = why_not_compiled() if source.leaves else ""
    if why and why not in (DISABLED, OFF):
        reasons.append(why)
        cures.append(how_to_install("numba"))
    if any(not leaf.store.is_raw for leaf in source.leaves) and library() is None:
        reasons.append("libjpeg-turbo 3 is not installed")
        cures.append(how_to_install_library())
    return f"{' and '.join(reasons)}. Install: {together(cures)}" if reasons else ""


def warn(source: BatchSource) -> None:
    """Log what is missing: once in a process, and on the first rank of a machine only.

    It is a log line and no Python warning: a test suite that turns warnings into errors must not fail for it. Python
    prints log lines of this level to stderr where logging is not configured.
    """
    if not _said and os.environ.get("LOCAL_RANK", "0") == "0" and (text := missing(source)):
        _said.append(text)
        logger.warning("RecordLoader is slower than it could be: %s", text)
