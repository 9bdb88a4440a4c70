"""An epoch from object storage with each library's loader: ``python -m benchmarks.object_storage --help``.

Each library has a module here with two functions. ``write(tree, folder)`` stores an image tree in the library's format.
``loader(source, cache, work)`` gives batches of it from a URL of the server; `cache` is the folder for fetched files.
Ours also reads a local folder.
"""
