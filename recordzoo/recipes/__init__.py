"""Recipes: how the raw data of each dataset becomes records. No torch here, so that preparing starts at once."""
