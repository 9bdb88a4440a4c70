"""A tree with one folder for each class."""
