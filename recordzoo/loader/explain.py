"""Explain which transforms a loader runs itself, which run as written, and why; name packages for more speed."""

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

import PIL

from recordzoo.images.frames import decoders
from recordzoo.images.turbojpeg import how_to_install_library, library
from recordzoo.loader.maker import Maker
from recordzoo.loader.source import BatchSource, JointLeaf
from recordzoo.pixels.compiling import DISABLED, OFF, compiled_code, why_not_compiled
from recordzoo.system.wheels import how_to_install, together
from recordzoo.transforms.plan import Plan

# Any, in all of this module: transforms are the user's.

logger = logging.getLogger("recordzoo")

_said: list[str] = []


def sample_lines(dataset: object, source: BatchSource, precision: str) -> list[str]:
    """Describe the processing of a sample, one line per step."""
    if not source.leaves:
        return [f"not fused: {source.problem}; each sample is taken from {type(dataset).__name__}, as it gives it"]
    lines = [f"decoded by {_decoder()}", f"PIL images are resampled by {_resampler(precision)}"]
    if less := missing(source):
        lines.append(f"slower than it could be: {less}")
    if source.is_small:
        lines.append("small images: one thread makes them, as several would wait for each other's turn with the GIL")
    for number, leaf in enumerate(source.leaves):
        if len(source.leaves) > 1:
            lines.append(f"dataset {number}: {type(leaf.dataset).__name__} {leaf.store.title}")
        for view, plan in enumerate(leaf.views.plans, 1):
            if leaf.views.is_list:
                lines.append(f"view {view}, of one decoding:")
            lines += _plan_lines(plan, precision)
        if isinstance(leaf, JointLeaf) and leaf.plan.is_joint:
            lines.append("boxes and masks are moved as the image is, by torchvision")
            lines += _rest_lines(leaf.plan.rest, leaf.plan.image.reason)
        if leaf.target_transform is not None:
            lines.append(
                f"not fused: target_transform {_line(leaf.target_transform)}; runs for each sample, as written"
            )
    return lines


def batch_lines(maker: Maker) -> Iterator[str]:
    """Describe the other options of batches, one per line."""
    options, leaves = maker.options, maker.source.leaves
    if options.skips:
        yield "on_error: samples that cannot be read or decoded are left out of their batches"
    if not options.collates_by_default:
        yield "collate_fn: samples are made on their own, for it to put together"
    if not leaves or not all(leaf.is_fused for leaf in leaves):
        yield (
            "deterministic: what is not fused runs one sample at a time, with generators seeded for each"
            if options.deterministic
            else "what is not fused draws random numbers from the generators of its process: reproducible with "
            "num_workers=0, or deterministic=True"
        )


def warn(source: BatchSource) -> None:
    """Log missing packages, once per process and only on the first rank of a machine.

    A log line, not a Python warning: test suites that turn warnings into errors must not fail. Without logging
    configuration, Python prints it to stderr.
    """
    if not _said and os.environ.get("LOCAL_RANK", "0") == "0" and (text := missing(source)):
        _said.append(text)
        logger.warning("RecordLoader is slower than it could be: %s", text)


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


def _plan_lines(plan: Plan, precision: str) -> list[str]:
    lines = [f"fused: {_line(transform)}" for transform in plan.fused]
    if plan.steps and precision == "fast":
        lines.append("fast: decoded at half the size where that is enough")
    lines += _rest_lines(plan.rest, plan.reason)
    if plan.ending is not None:
        lines += [f"fused at the end: {_line(transform)}" for transform in plan.ending.fused]
    elif not plan.is_tensor and not plan.rest:
        lines.append("no transform makes a tensor of the image: samples are PIL images")
    elif plan.is_whole and plan.size is None:
        lines.append("images may differ in size: only those of one size are made together")
    return lines


def _rest_lines(rest: Sequence[Any], reason: str) -> Iterator[str]:
    for number, transform in enumerate(rest):
        why = "it comes behind one that is not fused" if number else reason
        yield f"not fused: {_line(transform)}: {why}; runs for each sample, as written"


def _decoder() -> str:
    found = ", then ".join(decoders())
    return found if library() is not None else f"{found}; libjpeg-turbo 3 would decode only what is kept"


def _resampler(precision: str) -> str:
    found = compiled_code(waits=precision == "fast")
    if found is None:
        slow = "Pillow" if precision == "exact" else "torch"
        if why := why_not_compiled():
            return f"{slow}; compiled code would be faster, but {why}"
        return f"{slow}, until the compiled code is ready: another process compiles it, once for this machine"
    if precision == "exact" and "Pillow" not in found.exact:
        return f"Pillow {PIL.__version__}: the compiled code, which is faster, gives other pixels than this version"
    return "compiled code (numba), as Pillow does" if "Pillow" in found.exact else "compiled code (numba)"


def _line(transform: Any) -> str:
    return " ".join(repr(transform).split())
