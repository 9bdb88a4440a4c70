"""USPS."""
