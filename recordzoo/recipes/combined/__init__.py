"""Combine all or some records of record sets into a new set; stored values are copied unchanged."""
