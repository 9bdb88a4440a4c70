"""Formats of other tools, a module for each: read, and written as exports."""
