"""LMDB databases of earlier tools → record sets: what each tool stored, read without running any of it."""

LAYOUTS = ("folder2lmdb", "torchrecord", "caffe", "lmdb_arrays", "lmdb_objects", "lmdb_text", "lmdb_images")
"""The layouts of LMDB databases that are known; each a module."""
