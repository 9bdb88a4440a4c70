"""MATLAB files by code."""

import io
from typing import Any

from scipy.io import savemat


def mat(**values: Any) -> bytes:
    file = io.BytesIO()
    savemat(file, values, do_compression=True)
    return b"MATLAB 5.0 MAT-file".ljust(116) + file.getvalue()[116:]  # without the time of writing
