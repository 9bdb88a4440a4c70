"""Encoded bytes or stored pixels become an image; boxes and masks become arrays."""
