"""The order of samples: shuffled without a list, the same on every rank, resumable at any place."""
