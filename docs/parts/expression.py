"""The code that takes a sample of a dataset apart, with the type of each of its names, for the dataset's card."""

import keyword
import re
from collections.abc import Sequence
from html import escape

from docs.parts.fakes import Sample

_LINE = 60  # letters of code
_HINTED = {"category": "label", "bbox": "box", "segmentation": "mask", "attr": "attributes"}
_NAMES = (
    (r"PIL image \((RGB|mode of its file)\)$", "image"),
    (r"PIL image", "mask"),
    (r"int$|tensor int64 \[\]$", "label"),
    (r"list of int$|array int64 \[\d+\]$|tensor int64 \[\d+\]$", "labels"),
    (r"list of str", "captions"),
    (r"list of {", "objects"),
    (r"tensor uint8 \[\d+, 1,", "video"),
    (r"None$", "_"),
)


def expression(kind: str, samples: Sequence[Sample]) -> str:
    """Return code that takes a sample apart, and the types of its names."""
    code, names, items = statements(kind, samples)
    rows = [
        f"<dt><code>{name}</code></dt><dd>{escape(_brief(text), quote=False)}</dd>"
        for name, (text, _) in zip(names, items, strict=True)
    ]
    shown = escape("\n".join(code), quote=False)
    return f"<pre><code>{shown}</code></pre>\n<dl>\n{chr(10).join(rows)}\n</dl>"


def statements(kind: str, samples: Sequence[Sample]) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Return the two statements that open a dataset and take a sample apart, the names in it, and their items.

    Of all samples the one with most items is taken.
    """
    sample = max(samples, key=lambda each: len(_items(each)))
    items = _items(sample)
    names: list[str] = []
    for text, hint in items:
        name = _name(text, hint) if names or not text.lstrip("(").startswith("PIL") else "image"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    inside = ", ".join(names[1:])
    if sample.items[-1].startswith("("):
        inside = f"({inside},)" if len(names) == 2 else f"({inside})"
    opened = f'dataset = {kind}("data"{sample.arguments and f", {sample.arguments}"})'
    if len(opened) >= _LINE:
        opened = f'dataset = {kind}(\n    "data",\n    {sample.arguments},\n)'
    return [opened, f"{', '.join(filter(None, [names[0], inside]))} = dataset[0]"], names, items


def _items(sample: Sample) -> list[tuple[str, str]]:
    """List the image and the targets, each with what `target_type` calls it, if it does."""
    if len(sample.items) != 2:
        return [(text, "") for text in sample.items]
    image, target = sample.items
    targets = _split(target[1:-1]) if target.startswith("(") else [target]
    found = re.search(r"target_types?=(\[.*?\]|\".*?\")", sample.arguments)
    hints = re.findall(r'"(.+?)"', found[1]) if found else []
    hints = hints if len(hints) == len(targets) else [""] * len(targets)
    return [(image, ""), *zip(targets, hints, strict=True)]


def _split(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _name(text: str, hint: str) -> str:
    """Name an item: by what `target_type` calls it, or by its type."""
    name = _HINTED.get(hint, re.sub(r"\W", "_", hint))
    name = name or next((name for pattern, name in _NAMES if re.match(pattern, text)), "target")
    return f"{name}_" if keyword.iskeyword(name) else name


def _brief(text: str) -> str:
    """Shorten a description of dicts to their keys; the table of samples has it whole."""
    start = text.find("{")
    if start < 0 or len(text) < 60:
        return text
    items = _split(text[start + 1 : text.rindex("}")])
    keys = [item.partition(":")[0] for item in items]
    if len(items) == 1:
        return f"{text[:start]}{{{keys[0]}: {_brief(items[0].partition(': ')[2])}}}"
    return f"{text[:start]}{{{', '.join(keys)}}}"
