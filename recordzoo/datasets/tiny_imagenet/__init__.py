"""Tiny ImageNet."""
