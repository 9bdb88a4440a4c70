"""Names for types: of what Python cannot write down, and of the splits that several datasets have."""

from typing import Any, Literal

JSON = Any
"""What `json.loads` gives: a dict, a list, a str, an int, a float, a bool or None."""

TrainTest = Literal["train", "test"]
TrainVal = Literal["train", "val"]
TrainValTest = Literal["train", "val", "test"]
