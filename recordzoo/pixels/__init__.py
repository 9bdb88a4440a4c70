"""Execute a plan on images: one by one with Pillow and torch, or many in one call of compiled code."""
