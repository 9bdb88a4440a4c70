"""Code to copy: prepare, load and train. Made from the example in a class's docstring, or from its samples."""

import ast
import doctest
import inspect
import re
from collections.abc import Sequence

import recordzoo
from docs.parts.expression import statements
from docs.parts.fakes import Sample, are_wanted, seen
from docs.parts.samples import ANY_MODE
from recordzoo.catalogue import Entry

_CROP = "T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()])"
_AS_STORED = "T.ToTensor()"
_TOGETHER = """def together(samples):
    return tuple(zip(*samples))  # lists: images or targets differ in size

"""
_DEFAULT = ("target_type", "target_types", "transform")
"""Arguments that the loop leaves at their default, whatever the example has."""

_ALIKE = re.compile(r"int|float|bool|tensor \w+ \[[\d, ]*\]|\((int|tensor \w+ \[[\d, ]*\]|, )*\)")
"""Targets that stack into a tensor."""


def prepare(entry: Entry) -> str:
    """Return the command that prepares a dataset."""
    terms = " --accept-terms" if any(file.needs_terms for file in entry.default_files) else ""
    return f"recordzoo prepare {entry.name} --root data{terms}"


def load(entry: Entry, class_name: str) -> str:
    """Return what opens a dataset and takes a sample."""
    samples = seen(entry.name).samples[class_name] if are_wanted() else ()
    lines = "\n".join(_example(class_name, samples))
    needs_os = "import os\n\n" if "os." in lines else ""
    return f"{needs_os}from recordzoo import {class_name}\n\n{lines}"


def train(entry: Entry, class_name: str) -> str:
    """Return a loop over the batches of a dataset, with the class's own kind of target."""
    sample = _default(seen(entry.name).samples[class_name])
    items, example = sample.items, _example(class_name, [sample])
    is_alike = _ALIKE.fullmatch(items[-1]) is not None
    takes = inspect.signature(_class(class_name)).parameters  # the MNISTs have **kwargs, SBD only `transforms`
    is_image = items[0].startswith("PIL image") and ("transform" in takes or "transforms" not in takes)
    is_any_mode = is_alike and ANY_MODE in items[0]
    is_file = seen(entry.name).record_set.manifest.blobs["image"].encoding == "image"  # else: pixels, all of one size
    transform = _CROP if is_alike and is_file else _AS_STORED
    lines = [f"from recordzoo import {class_name}, RecordLoader", ""]
    if is_image:
        more = ["from torchvision.transforms import v2"] if is_any_mode else []
        lines = ["from torchvision import transforms as T", *more, "", *lines]
    if not is_alike:
        lines += ["", _TOGETHER]
    if is_image:
        lines.append(f"transform = {transform}".replace("([", "([v2.RGB(), " if is_any_mode else "(["))
    collate = "" if is_alike else ", collate_fn=together"
    batch = "images, targets" if len(items) == 2 else example[1].partition(" = ")[0]
    lines += [
        f"dataset = {_opening(example[0], is_image)}",
        f"loader = RecordLoader(dataset, batch_size=64, shuffle=True{collate})",
        f"for {batch} in loader:",
        "    ...",
    ]
    return "\n".join(lines)


def _default(samples: tuple[Sample, ...]) -> Sample:
    """Return the sample with the default kind of target."""
    return next((each for each in samples if "target_type" not in each.arguments), samples[0])


def _opening(example: str, is_image: bool) -> str:
    """Return the constructor call of an example, with the default target and a transform."""
    statement = ast.parse(example).body[0]
    assert isinstance(statement, ast.Assign), example
    call = statement.value
    assert isinstance(call, ast.Call), example
    call.keywords = [each for each in call.keywords if each.arg not in _DEFAULT]
    if is_image:
        call.keywords.append(ast.keyword("transform", ast.Name("transform")))
    return ast.unparse(call).replace("'", '"')


def _class(name: str) -> type:
    found: type = getattr(recordzoo, name)
    return found


def _example(class_name: str, samples: Sequence[Sample]) -> list[str]:
    """Return the lines of the example in a class's docstring, or of one made from samples, or of the usual one."""
    found = doctest.DocTestParser().get_examples(inspect.cleandoc(_class(class_name).__doc__ or ""))
    if found:
        sources = [each.source.partition("  # doctest:")[0].strip() for each in found]
        return [source for source in sources if not source.startswith("from ")]
    return (
        statements(class_name, samples)[0]
        if samples
        else [f'dataset = {class_name}("data")', "image, label = dataset[0]"]
    )
