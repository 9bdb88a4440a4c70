"""An archive, a tree or a list becomes members."""
