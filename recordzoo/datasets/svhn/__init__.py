"""SVHN (cropped digits)."""
