"""Messages of TensorFlow, Caffe and TorchRecord, for the package protobuf, without code that its compiler made.

https://protobuf.dev/programming-guides/encoding: on the wire a map is a list of entries, and whole numbers are alike.
"""

import functools
from typing import Any

# The fields of each message: number, name, type; * is a list. tensorflow/core/example/{example,feature}.proto
# (an `Example` is a `SequenceExample` without sequences), BVLC/caffe src/caffe/proto/caffe.proto, torchrecord/tr.proto.
_MESSAGES = {
    "BytesList": "1 value bytes*",
    "FloatList": "1 value float*",
    "Int64List": "1 value int64*",
    "Feature": "1 texts BytesList, 2 floats FloatList, 3 integers Int64List",
    "FeatureEntry": "1 key bytes, 2 value Feature",
    "Features": "1 feature FeatureEntry*",
    "FeatureList": "1 feature Feature*",
    "ListEntry": "1 key bytes, 2 value FeatureList",
    "FeatureLists": "1 feature_list ListEntry*",
    "Example": "1 features Features, 2 sequences FeatureLists",
    "Datum": "1 channels int64, 2 height int64, 3 width int64, 4 data bytes, 5 label int64, 6 floats float*, "
    "7 encoded bool",
    "Tensor": "1 dims int64*, 4 int32s int64*, 5 data bytes*, 6 texts bytes*, 10 int64s int64*",
    "TensorProtos": "1 protos Tensor*",
}


# Any, here and below: a message's class, which is made while the program runs.
@functools.cache
def _classes() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="recordzoo.proto", package="recordzoo", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            number, field, kind = text.split()
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.removesuffix("*")
            made = message.field.add(name=field, number=int(number), label=label)
            if kind in _MESSAGES:
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".recordzoo.{kind}"
            else:
                made.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"recordzoo.{name}")) for name in _MESSAGES
    }


def parsed(name: str, data: bytes) -> Any:
    """Read a message.

    Args:
        name: "Example", "Datum" or "TensorProtos".
        data: The whole message.

    Raises:
        ValueError: It is none.
    """
    from google.protobuf.message import DecodeError

    try:
        return _classes()[name].FromString(data)
    except DecodeError as err:
        raise ValueError(str(err)) from err


def empty(name: str) -> Any:
    """Return a message without values."""
    return _classes()[name]()
