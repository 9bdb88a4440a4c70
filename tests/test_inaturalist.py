"""iNaturalist, beyond the contract: folders that are no categories are refused in torchvision's words."""

from pathlib import Path

import numpy as np
import pytest
from torchvision.datasets import INaturalist

import recordzoo
from tests.fakes.pictures import jpeg, picture


@pytest.mark.parametrize(
    ("version", "folders"),
    [
        ("2021_train", ["00000_Animalia_Chordata_Aves"]),
        ("2021_valid", ["00001_Animalia_Chordata_Aves_Passeriformes_Corvidae_Pica_pica"]),
        ("2018", ["Aves/0", "Aves/magpie"]),
        ("2019", ["Aves/0000", "Aves/0001", "Plantae/1"]),
        ("2019", ["Aves/0000", "Plantae/0002"]),
    ],
)
def test_a_folder_that_is_no_category(version: str, folders: list[str], tmp_path: Path) -> None:
    image = jpeg(picture(np.random.default_rng(0), 9, 9))
    for folder in folders:
        (tmp_path / version / folder).mkdir(parents=True)
        (tmp_path / version / folder / "a.jpg").write_bytes(image)
    with pytest.raises(RuntimeError, match=r"category|dir name") as theirs:
        INaturalist(tmp_path, version)
    with pytest.raises(recordzoo.errors.SourceError) as ours:
        recordzoo.INaturalistRecord(tmp_path, version)
    assert str(ours.value) == str(theirs.value)
