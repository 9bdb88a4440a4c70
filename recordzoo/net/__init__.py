"""Bytes from other machines: when a request is made again, and several files at a time."""
