"""COCO."""
