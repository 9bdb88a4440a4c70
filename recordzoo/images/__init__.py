"""Record bytes → images, decoded as Pillow does; no torch."""
