"""Type names: JSON values, and the splits that several datasets share."""

from typing import Any, Literal

JSON = Any
"""A value from `json.loads`: a dict, a list, a str, an int, a float, a bool or None."""

TrainTest = Literal["train", "test"]
TrainVal = Literal["train", "val"]
TrainValTest = Literal["train", "val", "test"]
