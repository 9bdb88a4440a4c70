"""`recordzoo cache`: what recordzoo wrote to the disk: found, measured, deleted. Nothing else is ever deleted."""
