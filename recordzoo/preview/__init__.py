"""Looking at a record set: which images, small pictures of them on a sheet or a page, and statistics; no torch."""
