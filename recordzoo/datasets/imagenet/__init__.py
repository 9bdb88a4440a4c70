"""ImageNet (ILSVRC2012)."""
