"""Samples become batches: order, transforms and pixels."""
