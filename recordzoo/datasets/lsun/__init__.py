"""LSUN scenes."""
