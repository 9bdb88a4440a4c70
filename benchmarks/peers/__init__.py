"""Everybody's loader on the same photographs, in one run: ``python -m benchmarks.peers --help``.

Each peer is a module here with ``write(tree, folder, **options)``, which stores an image tree as the peer does, and
``loader(tree, folder, work, **options)``, which gives batches of it as the peer's own pages advise.
"""
