"""Where a loader's batches are made: in threads, in worker processes or by the caller; and `print(loader)`."""

import logging
import os
from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, Literal, NamedTuple

from torch import nn

from recordzoo.base.settings import how_to_install, together
from recordzoo.errors import ArgumentError
from recordzoo.images.decode import decoders
from recordzoo.images.turbojpeg import how_to_install_library, library
from recordzoo.loader.compiled import DISABLED, OFF, compiled_code, why_not_compiled
from recordzoo.loader.making import BatchOptions, Maker
from recordzoo.loader.plan import replaced
from recordzoo.loader.source import JointLeaf, Source
from recordzoo.loader.stores import Own
from recordzoo.loader.table import customized

# Any, in all of this module: datasets, transforms and functions are the user's.

logger = logging.getLogger("recordzoo")

_OF_TORCH = (nn.Module, nn.ModuleList, nn.Sequential, object)
"""Bases of torchvision's transforms, and classes in which people give transforms to its containers."""

_MANY = 10_000
"""Of fewer small images an epoch takes about as long as starting worker processes."""


class Placement(NamedTuple):
    """Where the batches of a loader are made, and why.

    Attributes:
        where: "caller": in the thread that takes the batches, when it takes them.
    """

    where: Literal["threads", "processes", "caller"]
    why: str


class Code(NamedTuple):
    """Something that runs as written: its name for messages, and whether threads may share what it keeps."""

    name: str
    is_safe: bool


def place(
    options: BatchOptions,
    source: Source,
    workers: str,
    num_workers: int,
    *,
    is_own_order: bool = False,
    are_forked: bool = False,
) -> Placement:
    """Decide where the batches of a loader are made, without running any of it.

    Args:
        workers, num_workers: As in `RecordLoader`.
        is_own_order: Whether the keys of a batch must be drawn when it is taken.
        are_forked: Whether worker processes are copies of this one, which start in a tenth of a second.

    Raises:
        ArgumentError: `deterministic` with `workers="threads"`, and code that needs seeded generators.
    """
    of_samples, of_batches = code_of_samples(source), code_of_batches(options, source)
    written = of_samples + of_batches
    if not num_workers and (written or is_own_order):
        return Placement("caller", "num_workers=0")
    if options.deterministic and (seeded := written or _joint_transforms(source)):
        if workers == "threads":
            raise ArgumentError(
                f"deterministic=True: {seeded[0].name} is not compiled; workers='threads' would seed the generators "
                "that your own code draws from. Pass workers='auto', or leave deterministic out."
            )
        return Placement("processes", f"deterministic, and {seeded[0].name} is not compiled")
    if workers == "processes":
        return Placement("processes", "as asked")
    if workers == "threads":
        return Placement("threads", "as asked" if written else "all is fused")
    if own := [each.name for each in of_samples if not each.is_safe]:
        return Placement("processes", f"{own[0]} is your own code: each process runs its copy, as in DataLoader")
    if own := [each.name for each in of_batches if not each.is_safe]:
        return Placement("threads", f"of your own code there is only {', '.join(own)}, which one more thread runs")
    if are_forked and num_workers > 1 and len(options.dataset) >= _MANY and source.is_small:
        return Placement("processes", "the images are small: threads would wait for each other's turn with the GIL")
    return Placement("threads", "what is not fused is torchvision's own code" if written else "all is fused")


def code_of_samples(source: Source) -> list[Code]:
    """List what makes images and is not compiled: a dataset or its `image_bytes`, image and joint transforms."""
    if not source.leaves:
        return [Code(source.kind, is_safe=False)]
    found = []
    for leaf in source.leaves:
        if isinstance(leaf, Own):
            found.append(Code(type(leaf.dataset).__name__, is_safe=False))
        if isinstance(leaf, JointLeaf):
            # Some transforms of boxes call a function of the user's, though they are known.
            boxes = [each for step, each in leaf.plan.parts if step is None and not is_torchvisions(each)]
            found += [_code(each) for each in (*boxes, *leaf.plan.rest)]
        found += [_code(each) for plan in leaf.views.plans for each in plan.rest]
    return found


def code_of_batches(options: BatchOptions, source: Source) -> list[Code]:
    """List what converts targets, collates samples and transforms batches, and is not compiled."""
    found = []
    for leaf in source.leaves:
        if leaf.target_transform is not None:
            found.append(_code(leaf.target_transform, "target_transform "))
    if not options.collates_by_default:
        found.append(_code(options.collate, "collate_fn "))
    if options.batch_transform is not None and options.device.type == "cpu":
        found.append(_code(options.batch_transform, "batch_transform "))
    return found


def _joint_transforms(source: Source) -> list[Code]:
    """List known joint transforms: they run as written for targets with an image, which only the samples show."""
    leaves = [leaf for leaf in source.leaves if isinstance(leaf, JointLeaf) and leaf.plan.image.is_joint]
    return [_code(leaf.plan.transforms) for leaf in leaves]


def _code(written: Any, kind: str = "") -> Code:
    is_named = isinstance(written, FunctionType | BuiltinFunctionType | type)
    name = written.__name__ if is_named else type(written).__name__
    return Code(f"{kind}{name}", is_torchvisions(written) and not replaced())


def is_torchvisions(written: Any) -> bool:
    """Whether a transform is torchvision's own, and so are all that it holds: threads may share it."""
    if isinstance(written, FunctionType):
        # Not `__module__`, which functools.wraps copies.
        return str(written.__globals__.get("__name__")).startswith("torchvision.")
    bases = [base for base in type(written).__mro__ if base not in _OF_TORCH]
    are_own = all(base.__module__.startswith("torchvision.transforms.") for base in bases)
    return are_own and not customized(written) and all(map(is_torchvisions, _held(written)))


def _held(transform: Any) -> Iterator[Any]:
    """Iterate over the functions and transforms that a transform of torchvision has as attributes."""
    attributes = vars(transform)
    for value in (*attributes.values(), *attributes.get("_modules", {}).values()):
        for each in value if isinstance(value, list | tuple) else [value]:
            if callable(each) and not isinstance(each, type):
                yield each


_said: list[str] = []


def sample_lines(maker: Maker) -> list[str]:
    """Describe the processing of a sample, one line per step."""
    options, source = maker.options, maker.source
    lines = []
    if source.leaves:
        lines.append(f"decoded by {', then '.join(decoders())}")
        lines.append(f"PIL images are resampled by {_resampler(options.precision)}")
    else:
        lines.append(f"not fused: {source.problem}; each sample is taken from {source.kind}, as it gives it")
    if less := missing(source):
        lines.append(f"slower than it could be: {less}")
    for number, leaf in enumerate(source.leaves):
        if len(source.leaves) > 1:
            lines.append(f"dataset {number}: {type(leaf.dataset).__name__}")
        for view, plan in enumerate(leaf.views.plans, 1):
            if leaf.views.is_list:
                lines.append(f"view {view}, of one decoding:")
            lines += [f"fused: {_line(transform)}" for transform in plan.fused]
            lines += _rest_lines(plan.rest, plan.reason)
            if plan.ending is not None:
                lines += [f"fused at the end: {_line(transform)}" for transform in plan.ending.fused]
        if isinstance(leaf, JointLeaf) and leaf.plan.image.is_joint:
            lines.append("boxes and masks are moved as the image is, by torchvision")
            lines += _rest_lines(leaf.plan.rest, leaf.plan.image.reason)
        if leaf.target_transform is not None:
            lines.append(f"not fused: target_transform {_line(leaf.target_transform)}")
    if code_of_samples(source) or any(leaf.target_transform is not None for leaf in source.leaves):
        lines.append(
            "deterministic: what is not fused runs one sample at a time, with generators seeded for each"
            if options.deterministic
            else "what is not fused draws random numbers from the generators of its process: reproducible with "
            "num_workers=0, or deterministic=True"
        )
    return lines


def warn(source: Source) -> None:
    """Log missing packages, once per process and only on the first rank of a machine.

    A log line, not a Python warning: test suites that turn warnings into errors must not fail. Without logging
    configuration, Python prints it to stderr.
    """
    if not _said and os.environ.get("LOCAL_RANK", "0") == "0" and (text := missing(source)):
        _said.append(text)
        logger.warning("RecordLoader is slower than it could be: %s", text)


def missing(source: Source) -> str:
    """Name the missing packages that would make these samples faster, and how to install them; "" if none."""
    cures: dict[str, str] = {}  # by reason
    why = why_not_compiled() if source.leaves else ""
    if why and why not in (DISABLED, OFF):
        cures[why] = how_to_install("numba")
    if any(not leaf.is_raw for leaf in source.leaves) and library() is None:
        cures["libjpeg-turbo 3 is not installed"] = how_to_install_library()
    return f"{' and '.join(cures)}. Install: {together(list(cures.values()))}" if cures else ""


def _rest_lines(rest: Sequence[Any], reason: str) -> Iterator[str]:
    for number, transform in enumerate(rest):
        why = "it comes behind one that is not fused" if number else reason
        yield f"not fused: {_line(transform)}: {why}; runs for each sample, as written"


def _resampler(precision: str) -> str:
    found = compiled_code(waits=precision == "fast")
    if found is None:
        return f"Pillow; {why_not_compiled() or 'the compiled code is not ready'}"
    is_exact = precision == "fast" or "Pillow" in found.exact
    return "compiled code (numba)" if is_exact else "Pillow, whose version gives other pixels than the compiled code"


def _line(transform: Any) -> str:
    return " ".join(repr(transform).split())
