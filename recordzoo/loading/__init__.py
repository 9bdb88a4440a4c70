"""Record bytes → training batches."""
