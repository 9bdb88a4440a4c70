"""Oxford 102 Flowers."""
