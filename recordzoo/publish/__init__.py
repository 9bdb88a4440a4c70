"""Publish an output: one writer at a time, a build beside the output, one rename."""
