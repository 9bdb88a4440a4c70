"""Imagenette."""
