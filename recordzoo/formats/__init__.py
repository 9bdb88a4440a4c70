"""Formats of other tools, a module for each: what is there, and its samples, read without running any of it."""

FORMATS = (
    "tfrecord",
    "webdataset",
    "zip",
    "huggingface",
    "sqlite",
    "mongodb",
    "indexed",
    "hdf5",
    "numpy",
)
"""The modules, in the order in which they are tried."""

WRITTEN = {
    "folder": "FolderWriter",
    "webdataset": "WebDatasetWriter",
    "tfrecord": "TFRecordWriter",
    "parquet": "ParquetWriter",
    "zip": "ZipWriter",
}
"""Formats of exports: module and class."""
