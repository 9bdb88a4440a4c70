"""Rendered SST2."""
