"""Decide where batches are made: in threads, in worker processes, or in the calling thread.

Compiled code and torchvision's own transforms run in threads. The user's code may keep state, which threads would
share: it runs in processes, each with its copy, as in `DataLoader`.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, NamedTuple

from torch import nn

from recordzoo.errors import ArgumentError
from recordzoo.loader.maker import BatchOptions
from recordzoo.loader.source import BatchSource, JointLeaf
from recordzoo.loader.stores import Own
from recordzoo.transforms.originals import functions
from recordzoo.transforms.read import customized

# Any, in all of this module: datasets, transforms and functions are the user's.

_LISTS = (nn.ModuleList, nn.Sequential)
"""Classes of torch in which people give transforms to torchvision's containers."""


@dataclass(frozen=True)
class Placement:
    """Where the batches of a loader are made.

    Attributes:
        where: "caller": in the thread that takes the batches, when it takes them.
        reason: The reason; "{}" stands for the names of `code`.
        code: What is the reason.
    """

    where: Literal["threads", "processes", "caller"]
    reason: str
    code: tuple["Code", ...] = ()

    @property
    def why(self) -> str:
        """The reason, for `print(loader)`."""
        names = ", ".join(each.name for each in self.code)
        return self.reason.replace("{}", names) if names else self.reason


class Code(NamedTuple):
    """Something that runs as written.

    Attributes:
        written: The object; of a dataset, the name of its class.
        is_safe: Whether threads may share what it keeps.
        kind: What it is, if that is not clear from the object.
    """

    written: Any
    is_safe: bool
    kind: str = ""

    @property
    def name(self) -> str:
        """Its name for messages. Only they ask: an object's `repr` is the user's code."""
        if isinstance(self.written, str):
            return self.written
        try:
            return self.kind + " ".join(repr(self.written).split())
        except Exception:  # noqa: BLE001 - whatever the user's repr raises
            return self.kind + type(self.written).__name__


def place(options: BatchOptions, source: BatchSource, workers: str, num_workers: int) -> Placement:
    """Decide where the batches of a loader are made, without running any of it.

    Args:
        workers, num_workers: As in `RecordLoader`.

    Raises:
        ArgumentError: `deterministic` with `workers="threads"`, and code that needs seeded generators.
    """
    of_samples, of_batches = code_of_samples(source), code_of_batches(options, source)
    written = of_samples + of_batches
    if not num_workers and written:
        return Placement("caller", "num_workers=0")
    if options.deterministic and (seeded := written or _joint_transforms(source)):
        if workers == "threads":
            raise ArgumentError(
                f"deterministic=True: {seeded[0].name} is not compiled; workers='threads' would seed the generators "
                "that your own code draws from. Pass workers='auto', or leave deterministic out."
            )
        return Placement("processes", "deterministic, and {} is not compiled", (seeded[0],))
    if workers == "processes":
        return Placement("processes", "as asked")
    if not written:
        return Placement("threads", "all is fused")
    if workers == "threads":
        return Placement("threads", "as asked")
    if own := [each for each in of_samples if not each.is_safe]:
        return Placement("processes", "{} is your own code: each process runs its copy, as in DataLoader", (own[0],))
    if own := [each for each in of_batches if not each.is_safe]:
        return Placement("threads", "of your own code there is only {}, which one more thread runs", tuple(own))
    return Placement("threads", "what is not fused is torchvision's own code")


def code_of_samples(source: BatchSource) -> list[Code]:
    """List what makes images and is not compiled: a dataset or its `image_bytes`, image and joint transforms."""
    if not source.leaves:
        return [Code(source.kind, is_safe=False)]
    found = []
    for leaf in source.leaves:
        if isinstance(leaf.store, Own):
            found.append(Code(type(leaf.dataset).__name__, is_safe=False))
        if isinstance(leaf, JointLeaf):
            # Some transforms of boxes call a function of the user's, though they are known.
            boxes = [each for each in leaf.plan.of_target if not isinstance(each, int) and not is_torchvisions(each)]
            found += [_code(each) for each in (*boxes, *leaf.plan.rest)]
        found += [_code(each) for plan in leaf.views.plans for each in plan.rest]
    return found


def code_of_batches(options: BatchOptions, source: BatchSource) -> list[Code]:
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


def _joint_transforms(source: BatchSource) -> list[Code]:
    """List known joint transforms: they run as written for targets with an image, which only the samples show."""
    leaves = [leaf for leaf in source.leaves if isinstance(leaf, JointLeaf) and leaf.plan.is_joint]
    return [_code(leaf.plan.transforms) for leaf in leaves]


def _code(written: Any, kind: str = "") -> Code:
    return Code(written, is_torchvisions(written), kind)


def is_torchvisions(written: Any) -> bool:
    """Whether a transform is torchvision's own, unpatched, and so are all that it holds: threads may share it."""
    if isinstance(written, FunctionType):
        # Not `__module__`, which functools.wraps copies.
        return str(written.__globals__.get("__name__")).startswith("torchvision.") and not functions.replaced()
    if type(written) in _LISTS:
        return all(map(is_torchvisions, written))
    is_plain = _is_class_of_torchvision(type(written)) and not customized(written)
    return is_plain and not functions.replaced() and all(map(is_torchvisions, _held(written)))


def _held(transform: Any) -> Iterator[Any]:
    """Iterate over the functions and transforms that a transform of torchvision has as attributes."""
    attributes = vars(transform)
    for value in (*attributes.values(), *attributes.get("_modules", {}).values()):
        for each in value if isinstance(value, list | tuple) else [value]:
            if callable(each) and not isinstance(each, type):
                yield each


def _is_class_of_torchvision(kind: type) -> bool:
    """Whether a class is one of torchvision's transforms."""
    bases = [base for base in kind.__mro__ if base not in (nn.Module, object)]
    return all(
        base.__module__.startswith("torchvision.transforms.")
        and getattr(sys.modules.get(base.__module__), base.__name__, None) is base
        for base in bases
    )
