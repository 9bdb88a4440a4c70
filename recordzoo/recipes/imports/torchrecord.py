"""TorchRecord's databases `db0`, `db1`, ...: keys are numbers, values `TensorProtos` messages.

GeoffreyChen777/TorchRecord torchrecord/writer.py has three generations. The released one (0.1.0 and 0.1.1) writes one
LMDB file with a named database for each part and pads the keys with zeros: "000", "001", ... Before it, the keys were
not padded, and at first each part was a directory of its own.

Field numbers are those of torchrecord/tr.proto, which is Caffe2's. The first tensor is the image: its dims are Pillow's
size, [width, height], its bytes the pixels in RGB, or, by the project's second example (test/test_writer.py), the
image's file. The second is the label: its digits as text, or a number.
"""

from collections.abc import Sequence
from pathlib import Path

from recordzoo.recipes.images import sniffed_ending
from recordzoo.recipes.imports.protobuf import Message, WireError
from recordzoo.recipes.imports.sample import ForeignValueError, Order, Read, Sample, as_label, numbered

NAME = "torchrecord"
EXPECTED = "TensorProtos of TorchRecord (an image's size and pixels, a label)"

_PROTOS = 1
_DIMS, _BYTES, _TEXT, _INT32, _INT64 = 1, 5, 6, 4, 10


def parse(value: bytes) -> Sample:
    """Read a pair of tensors.

    Raises:
        ForeignValueError: It is none, or its pixels are not RGB.
    """
    try:
        message = Message(value)
        tensors = [Message(part) for part in message.all_bytes(_PROTOS)]
        if len(tensors) != 2:
            raise ForeignValueError(f"it is no TensorProtos of two tensors, but has {len(tensors)}")
        dims, data = tensors[0].integers(_DIMS), tensors[0].bytes_of(_BYTES)
        label = _label(tensors[1])
    except WireError as err:
        raise ForeignValueError(f"it is no TensorProtos: {err}") from err
    if not data:
        raise ForeignValueError("its first tensor has no bytes")
    if len(dims) == 2 and min(dims) > 0 and dims[0] * dims[1] * 3 == len(data):
        return Sample(data, label, (dims[1], dims[0], 3), "|u1")
    if sniffed_ending(data):
        return Sample(data, label)
    raise ForeignValueError(
        f"its first tensor is neither an image's file nor RGB: {len(data):,} bytes for width and height {dims[:8]}"
    )


def _label(tensor: Message) -> int:
    numbers = [*tensor.integers(_INT32), *tensor.integers(_INT64)]
    if len(numbers) == 1:
        return as_label(numbers[0])
    texts = [text for text in (tensor.bytes_of(_BYTES), *tensor.all_bytes(_TEXT)) if text is not None]
    if numbers or len(texts) != 1:
        raise ForeignValueError("its second tensor is not one label")
    digits = texts[0].strip()
    if len(digits) > 20 or not digits.removeprefix(b"-").isdigit():
        raise ForeignValueError(f"its label is {digits[:20]!r}, not a whole number")
    return as_label(int(digits))


def order(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Sort the keys as the numbers that they are: the order of the list that was given to the writer.

    Raises:
        ForeignValueError: A key is no number.
    """
    found = numbered(keys)
    if found is None:
        raise ForeignValueError('its keys are not "0", "1", "2", ...')
    return found, ()
