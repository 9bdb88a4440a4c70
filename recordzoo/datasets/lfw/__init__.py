"""Labeled Faces in the Wild."""
