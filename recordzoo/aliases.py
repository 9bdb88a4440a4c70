"""Names for types that Python cannot write down."""

from typing import Any

JSON = Any
"""What `json.loads` gives: a dict, a list, a str, an int, a float, a bool or None."""
