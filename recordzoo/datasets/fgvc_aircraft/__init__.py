"""FGVC-Aircraft 2013b."""
