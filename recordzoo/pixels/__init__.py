"""A plan → the pixels of images: one by one with Pillow and torch, or many in one call of compiled code."""
