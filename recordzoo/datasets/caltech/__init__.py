"""Caltech 101 and Caltech 256."""
