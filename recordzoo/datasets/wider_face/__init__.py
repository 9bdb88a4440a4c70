"""WIDER FACE."""
