"""A list of transforms → a plan of what happens to each image."""
