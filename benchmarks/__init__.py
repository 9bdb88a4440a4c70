"""Benchmarks: everything side by side in one run, interleaved, medians. `make bench` runs them all."""
