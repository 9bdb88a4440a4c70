"""Combine record sets into a new one, with or without copying their values; `subset` of an open dataset."""
