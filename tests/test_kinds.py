"""The kinds of record sets, and of their fields."""

from pathlib import Path

import pytest

import recordzoo
from recordzoo.records.reader import RecordReader
from tests.fakes.annotations import celeba, kitti, oxford_pets, sbd
from tests.fakes.fake import Fake
from tests.fakes.listed_files import fgvc_aircraft
from tests.fakes.plain import cub200_2010, nabirds, online_products


@pytest.mark.parametrize(
    ("fake", "target", "fields"),
    [
        (
            celeba,
            "attr",
            {"attr": "multilabel", "bbox": "boxes", "identity": "int", "image": "image", "landmarks_align": "int"},
        ),
        (cub200_2010, "target", {"annotation": "bytes", "image": "image", "target": "class"}),
        (
            fgvc_aircraft,
            "variant",
            {"family": "class", "image": "image", "manufacturer": "class", "variant": "class"},
        ),
        (kitti, "label", {"image": "image", "label": "bytes"}),
        (nabirds, "target", {"bbox": "boxes", "image": "image", "parts": "float", "target": "class"}),
        (online_products, "target", {"image": "image", "super_category": "class", "target": "class"}),
        (
            oxford_pets,
            "target",
            {"image": "image", "mask": "masks", "species": "class", "target": "class"},
        ),
        (sbd, "mask", {"image": "image", "mask": "bytes"}),
    ],
    ids=lambda value: getattr(value, "dataset", None),
)
def test_what_the_fields_of_a_dataset_are(fake: Fake, target: str, fields: dict[str, str], tmp_path: Path) -> None:
    root = fake.write_tree(tmp_path)
    path = recordzoo.prepare(fake.dataset, root, check_hash=False, workers=1)[0]
    manifest = RecordReader(path).manifest
    assert (manifest.kind, manifest.dataset) == ("zoo", fake.dataset)
    assert {name: str(spec.kind) for name, spec in manifest.fields.items()} == fields
    assert manifest.default_target == target
    for name, spec in manifest.fields.items():
        if spec.kind == "class" and spec.names is not None:
            labels = RecordReader(path).array(name)
            assert -1 <= labels.min() <= labels.max() < len(spec.names)
