"""Cityscapes."""
