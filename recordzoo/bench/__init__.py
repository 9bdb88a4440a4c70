"""Measure, compare and draw how fast the user's data becomes batches."""
