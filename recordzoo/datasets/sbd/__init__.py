"""Semantic Boundaries Dataset."""
