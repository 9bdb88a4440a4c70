"""CLEVR, as a task of counting objects."""
