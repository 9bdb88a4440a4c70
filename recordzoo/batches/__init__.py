"""A dataset → training batches, in threads."""
