from pathlib import Path

import pytest

from recordzoo.base.files import BackgroundHash, new_hash
from recordzoo.errors import ArgumentError


def test_an_unknown_algorithm_is_named_with_the_valid_ones() -> None:
    with pytest.raises(ArgumentError, match=r"'md6'.*sha256"):
        new_hash("md6")


def test_an_error_while_reading_reaches_who_asks() -> None:
    # Reading one's own memory at address 0 fails as a broken disk does: the open succeeds, the read gives EIO.
    memory = Path("/proc/self/mem")
    if not memory.exists():
        pytest.skip("no file at hand that opens and cannot be read")
    background = BackgroundHash(memory, "md5")
    with pytest.raises(OSError, match="Input/output error"):
        background.hexdigest()
    background.close()
