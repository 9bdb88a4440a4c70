"""Code to copy: prepare, load and train. Made from the example in the docstring of each class, if it needs one."""

import ast
import doctest
import inspect
import re

import recordzoo
from docs.parts.fakes import Sample, seen
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


def load(class_name: str) -> str:
    """Return what opens a dataset and takes a sample."""
    lines = "\n".join(_example(class_name))
    needs_os = "import os\n\n" if "os." in lines else ""
    return f"{needs_os}from recordzoo import {class_name}\n\n{lines}"


def train(entry: Entry, class_name: str) -> str:
    """Return a loop over the batches of a dataset, with the class's own kind of target."""
    items = _default(seen(entry.name).samples[class_name]).items
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
    batch = "images, targets" if len(items) == 2 else _example(class_name)[1].partition(" = ")[0]
    lines += [
        f"dataset = {_opening(class_name, is_image)}",
        f"loader = RecordLoader(dataset, batch_size=64, shuffle=True{collate})",
        f"for {batch} in loader:",
        "    ...",
    ]
    return "\n".join(lines)


def _default(samples: tuple[Sample, ...]) -> Sample:
    """Return the sample with the default kind of target."""
    return next((each for each in samples if "target_type" not in each.arguments), samples[0])


def _opening(class_name: str, is_image: bool) -> str:
    """Return the constructor call of the example, with the default target and a transform."""
    statement = ast.parse(_example(class_name)[0]).body[0]
    assert isinstance(statement, ast.Assign), class_name
    call = statement.value
    assert isinstance(call, ast.Call), class_name
    call.keywords = [each for each in call.keywords if each.arg not in _DEFAULT]
    if is_image:
        call.keywords.append(ast.keyword("transform", ast.Name("transform")))
    return ast.unparse(call).replace("'", '"')


def example(kind: type, name: str) -> str:
    """Return the docstring of a class, with an example: the usual one, if the docstring has none."""
    text = inspect.cleandoc(kind.__doc__ or "")
    return text if ">>>" in text else f'{text}\n\n>>> dataset = {name}("data")\n>>> image, label = dataset[0]'


def _class(name: str) -> type:
    found: type = getattr(recordzoo, name)
    return found


def _example(class_name: str) -> list[str]:
    """Return the lines of a class's example, without its import and without what only doctest reads."""
    text = example(_class(class_name), class_name)
    sources = [each.source.partition("  # doctest:")[0].strip() for each in doctest.DocTestParser().get_examples(text)]
    return [source for source in sources if not source.startswith("from ")]
