"""Read a list of transforms into a plan for each image."""
