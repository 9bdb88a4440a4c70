"""Places365, standard and challenge, in two sizes."""
