"""Recipes: how to convert each dataset's raw data to records. No torch, so that preparing starts fast."""
