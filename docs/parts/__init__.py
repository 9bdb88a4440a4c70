"""The parts of the documentation that the program knows better than a writer.

A page says ``<!-- generated: NAME -->`` where such a part goes; `docs/hooks.py` puts it there when the site is built.
`register` has the parts by name; `docs/generate.py` writes the two files that are committed.
"""
