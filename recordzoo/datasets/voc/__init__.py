"""Pascal VOC."""
