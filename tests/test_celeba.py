"""CelebA, beyond the contract: variants."""

from pathlib import Path

import numpy as np
import pytest

import recordzoo
from tests.fakes.celeba import celeba


def test_variants(tmp_path: Path) -> None:
    celeba.write_archive(tmp_path)
    stored, raw = (recordzoo.CelebARecord(tmp_path, variant=each, check_hash=False) for each in ("16-png", "16-raw"))
    for (image, target), (pixels, same) in zip(stored, raw, strict=True):
        assert min(image.size) == 16
        assert np.array_equal(np.asarray(image), np.asarray(pixels))
        assert target.equal(same)
    assert len(stored) == len(raw) == 6


def test_a_target_that_does_not_exist(tmp_path: Path) -> None:
    """As torchvision's, whose samples leave a file open then: the contract cannot try it."""
    celeba.write_archive(tmp_path)
    dataset = recordzoo.CelebARecord(tmp_path, target_type=["attr", "age"], check_hash=False)
    with pytest.raises(ValueError, match=r'^Target type "age" is not recognized\.$'):
        dataset[0]
