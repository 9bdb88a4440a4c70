"""What `ImageFolderRecord` shows of a record set of one's own data: whatever targets and images it has."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recordzoo.datasets.sequences import Selection
from recordzoo.errors import OtherSourceError
from recordzoo.loading.pictures import from_pixels, is_pixels
from recordzoo.records.reader import RecordReader


class ValueSelection(Selection):
    """A selection whose targets are no labels but what a dataset of one's own gave: numbers, tuples, dicts."""

    # Any: values of all kinds.
    def target(self, index: int) -> Any:
        """Return the target of a (non-negative) index, as the dataset gave it; what was stored as JSON, as JSON has it.

        Raises:
            CorruptRecordError: What is stored is not what was written.
        """
        position = self.position(index)
        parts = sample_form(self.reader).get("parts", {}).get("target")
        if parts is not None:
            return tuple(stored_value(self.reader, part, position) for part in parts)
        return stored_value(self.reader, "target", position)

    def targets(self) -> NDArray[Any]:
        """Return all targets, a new object array [n]."""
        found = np.empty(len(self), object)
        for index in range(len(self)):
            found[index] = self.target(index)
        return found


def sample_form(reader: RecordReader) -> Mapping[str, Any]:
    """Return what a record set keeps of the samples of one's own dataset; nothing of other sets."""
    form = reader.manifest.metadata.get("sample")
    return form if isinstance(form, dict) else {}


def stored_value(reader: RecordReader, field: str, position: int) -> Any:
    """Return a field's value; an array that was a tensor is one again.

    Raises:
        CorruptRecordError: What is stored is not what was written.
    """
    value = reader.value(field, position)
    if isinstance(value, np.ndarray):
        value = value.copy()  # what is stored cannot be written to
        if field in sample_form(reader).get("tensors", ()):
            return torch.from_numpy(value)
    return value


def stored_selection(reader: RecordReader, split: str = "") -> Selection:
    """Show a split of a record set, or all of it, with whatever targets it has.

    Raises:
        OtherSourceError: It has none.
    """
    manifest = reader.manifest
    target = manifest.arrays.get("target")
    if target is not None and len(target.shape) == 1 and target.dtype[1] in "iu":
        return Selection(reader, split)
    parts = sample_form(reader).get("parts", {})
    if target is None and "target" not in manifest.blobs and "target" not in parts:
        raise OtherSourceError(
            f'{reader.path} has no "target", which ImageFolder gives with each image. Its records can be read with '
            'RecordReader; convert gives a field that name if it is told to: fields={"label": "target"}.',
            path=str(reader.path),
        )
    return ValueSelection(reader, split)


def raw_image(reader: RecordReader, position: int) -> Any:
    """Make of raw pixels what torchvision's loader makes of an image's file; of other numbers an array or tensor.

    Raises:
        CorruptRecordError: What is stored is not what was written.
    """
    value = reader.value("image", position)
    if is_pixels(value.dtype.str, value.shape):
        return from_pixels(value).convert("RGB")
    return stored_value(reader, "image", position)


def raw_file(reader: RecordReader, position: int) -> tuple[bytes, str]:
    """Return raw values as a file that loaders know, and its ending: PNG for pixels, .npy for other numbers.

    Raises:
        CorruptRecordError: What is stored is not what was written.
    """
    value = reader.value("image", position)
    buffer = io.BytesIO()
    if is_pixels(value.dtype.str, value.shape):
        from_pixels(value).save(buffer, "png")
        return buffer.getvalue(), ".png"
    np.save(buffer, value, allow_pickle=False)
    return buffer.getvalue(), ".npy"
