"""Views of a record set: images on a sheet, a page or in a notebook, and statistics; no torch."""
