"""Country211."""
