"""A dataset → batches for training."""
