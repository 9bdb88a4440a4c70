"""Lightning."""

import pytest

pytest.importorskip("lightning", reason="needs the extra `frameworks`: make frameworks")


def test_lightning_is_there() -> None:
    import lightning

    assert lightning.__version__
