"""A URL becomes a verified local file."""
