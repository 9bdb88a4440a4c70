"""Decode stored images as Pillow does; no torch."""
