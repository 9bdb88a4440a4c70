"""ObjectNet."""
