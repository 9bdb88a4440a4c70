"""Describable Textures Dataset."""
