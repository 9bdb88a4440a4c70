"""Image formats that are compared: a module for each, with how it is written and how people read it."""

NAMES = ("files", "tfrecord", "lmdb", "onefile", "sqlite", "webdataset", "mds", "parquet", "hdf5", "records")
"""The modules, in the order of the tables; the first is what the others are compared with."""
