"""Benchmarks: everything side by side in one run, interleaved, medians. `make bench` runs them all."""

import os

os.environ.setdefault("RECORDZOO_COMPILE", "wait")  # else the first batches would be Pillow's
