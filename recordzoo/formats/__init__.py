"""Formats of other tools, a module for each: what is there, and its samples, read without running any of it."""

FORMATS = (
    "tfrecord",
    "webdataset",
    "zip",
    "huggingface",
    "sqlite",
    "mongodb",
    "indexed",
)
"""The modules, in the order in which they are tried."""

LAYOUTS = ("folder2lmdb", "torchrecord", "caffe", "lmdb_arrays", "lmdb_objects", "lmdb_text", "lmdb_images")
"""The layouts of LMDB databases that are known; LMDB is tried last."""
