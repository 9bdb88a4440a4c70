"""``python -m recordzoo``: the same as ``recordzoo``."""

from recordzoo.cli import main

if __name__ == "__main__":  # worker processes import the main module again
    main()
