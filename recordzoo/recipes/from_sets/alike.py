"""Check that record sets fit together: equal fields and encodings; equal classes, or classes united by name."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from recordzoo.base.text import name_first
from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError, SourceError
from recordzoo.recipes.from_sets.part import SetPart
from recordzoo.records.manifest import Manifest

_NOT_KEPT = {
    *("num_bad", "num_skipped", "empty_classes", "selection", "written", "made_of"),
    *("list", "identity", "named", "samples", "origin", "kinds"),
}
"""Metadata that says where records came from; the new set has its own."""

_FORM: dict[str, JSON] = {"parts": {}, "tensors": [], "pictures": {}}


def check_alike(parts: Sequence[SetPart]) -> None:
    """Refuse sets whose records differ in their fields."""
    first = parts[0]
    for other in parts[1:]:
        if other.reader.manifest.variant != first.reader.manifest.variant:
            variants = f"{first.reader.manifest.variant!r} and {other.reader.manifest.variant!r}"
            raise _different(first, other, f"they are different variants, {variants}")
        before, now = _fields(first.reader.manifest), _fields(other.reader.manifest)
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                what = f"the field {name!r} is {before.get(name, 'absent')} in the first, {now.get(name, 'absent')}"
                forms = {each[name].partition(" ")[0] for each in (before, now) if name in each}
                is_stored_again = len(forms) == 2 and "raw" in forms
                hint = (
                    f"; convert it again with kinds={{{name!r}: 'raw'}} where it is no raw field"
                    if is_stored_again
                    else ""
                )
                raise _different(first, other, f"{what} in the second{hint}")
        if _form(first.reader.manifest) != _form(other.reader.manifest):
            raise _different(first, other, "their samples were given in different forms (tensors, images, tuples)")


def _different(first: SetPart, other: SetPart, why: str) -> ArgumentError:
    return ArgumentError(f"{first.reader.path} and {other.reader.path} cannot be merged: {why}.")


def _fields(manifest: Manifest) -> dict[str, str]:
    """Describe each field's meaning and encoding."""
    said = {}
    for name, blob in manifest.blobs.items():
        said[name] = blob.encoding
        if blob.encoding == "raw":
            shape = manifest.arrays.get(f"{name}.shape")
            dimensions = shape.shape[1] if shape is not None else len(blob.shape or ())
            said[name] = f"raw {np.dtype(blob.dtype).name} with {dimensions} dimensions"
    for name in manifest.columns:
        spec = manifest.arrays[name]
        said[name] = f"{np.dtype(spec.dtype).name} {list(spec.shape[1:])}"
    return said


def _form(manifest: Manifest) -> dict[str, JSON]:
    found = manifest.metadata.get("sample")
    form = found if isinstance(found, dict) else {}
    return {key: form.get(key) or nothing for key, nothing in _FORM.items()}


def common_metadata(parts: Sequence[SetPart], *, is_renumbered: bool) -> dict[str, JSON]:
    """Return the metadata on the records that is equal in all parts."""
    each: list[Mapping[str, JSON]] = [part.reader.manifest.metadata for part in parts]
    dropped = _NOT_KEPT | ({"synonyms"} if is_renumbered else set())
    kept = {
        name: value
        for name, value in each[0].items()
        if name not in dropped and all(name in other and other[name] == value for other in each[1:])
    }
    form = next((found["sample"] for found in each if "sample" in found), None)
    return kept if form is None else {**kept, "sample": form}


def common_classes(parts: Sequence[SetPart], *, unite: bool) -> tuple[tuple[str, ...] | None, list[list[int] | None]]:
    """Return the classes of the new set and, for each part, the new number of each of its classes.

    Args:
        unite: Unite classes by name, in order of appearance. Default: they must be equal.

    Returns:
        The classes, or None without classes; for a part whose numbers stay, None.
    """
    chosen = [_chosen_classes(part) for part in parts]
    if not unite:
        for part, classes in zip(parts, chosen, strict=True):
            if classes != chosen[0]:
                raise ArgumentError(
                    f"{parts[0].reader.path} and {part.reader.path} have different classes: "
                    f"{_shown(chosen[0], classes)}. Pass --classes union (classes='union') to unite them by name."
                )
        return chosen[0], [_numbers(part, None) for part in parts]
    united: dict[str, int] = {}
    for part, classes in zip(parts, chosen, strict=True):
        if classes is None or part.reader.manifest.label_field is None:
            raise ArgumentError(f"{part.reader.path} has no class names: its classes cannot be united with others.")
        if len(set(classes)) != len(classes):
            raise ArgumentError(f"{part.reader.path} has two classes of one name: they cannot be united with others.")
        for name in classes:
            united.setdefault(name, len(united))
    return tuple(united), [
        _numbers(part, [united[name] for name in classes or ()]) for part, classes in zip(parts, chosen, strict=True)
    ]


def _chosen_classes(part: SetPart) -> tuple[str, ...] | None:
    classes, labels = part.reader.manifest.classes, part.choice.labels
    if classes is None or labels is None:
        return classes
    return tuple(classes[label] for label in labels)


def _numbers(part: SetPart, united: list[int] | None) -> list[int] | None:
    """Return the new number of each class: -1 for one that is not chosen; None if all numbers stay."""
    labels = part.choice.labels
    if labels is None:
        return None if united is None or united == list(range(len(united))) else united
    found = [-1] * (max(labels, default=-1) + 1)
    for place, label in enumerate(labels):
        found[label] = place if united is None else united[place]
    return found


def _shown(first: tuple[str, ...] | None, other: tuple[str, ...] | None) -> str:
    if first is None or other is None:
        return "one of them has no class names"
    missing = [name for name in first if name not in other] + [name for name in other if name not in first]
    if not missing:
        return "the same names in another order"
    return f"{name_first(missing, 3)} {'is' if len(missing) == 1 else 'are'} in one of them only"


def renumbered(labels: NDArray[np.generic], numbers: list[int] | None, where: str) -> NDArray[np.generic]:
    """Renumber classes; negative numbers, which mean no class, stay."""
    if numbers is None:
        return labels
    old = labels.astype(np.int64)
    if len(old) and old.max() >= len(numbers):
        raise SourceError(f"{where}: a record has the class {old.max()}, and there are only {len(numbers)} classes.")
    return np.where(old < 0, old, np.asarray(numbers, np.int64)[np.maximum(old, 0)] if numbers else old)
