"""SEMEION."""
