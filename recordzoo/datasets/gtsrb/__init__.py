"""GTSRB."""
