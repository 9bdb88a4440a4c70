"""`recordzoo list`: filters, and what is prepared."""

import json
from pathlib import Path

import pytest

import recordzoo
from recordzoo import catalogue
from tests.fakes.arrays import usps
from tests.preparing import REPOSITORY
from tests.running import run


def names(*options: str) -> list[str]:
    return [
        dataset["name"] for dataset in json.loads(run("list", *options, "--json", cwd=REPOSITORY).stdout)["datasets"]
    ]


@pytest.mark.parametrize(
    ("options", "has", "lacks"),
    [
        (["--task", "Detection"], "voc", "mnist"),
        (["--license", "cc by-sa"], "kmnist", "eurosat"),
        (["--obtained", "terms"], "imagenet", "mnist"),
        (["--obtained", "download"], "mnist", "imagenet"),
        (["--obtained", "partly"], "lfw", "mnist"),
        (["--license", "mit"], "eurosat", "cifar10_1"),
        (["--checked", "lists"], "nabirds", "mnist"),
        (["--max-size", "100MB"], "eurosat", "cifar10"),
        (["--max-size", "1TB"], "cifar10", "usps"),  # the sizes of its files are not known
        (["--task", "classification", "--max-size", "20MB"], "mnist", "kmnist"),
    ],
    ids=" ".join,
)
def test_filters(options: list[str], has: str, lacks: str) -> None:
    found = names(*options)
    assert has in found
    assert lacks not in found
    shown = run("list", *options, cwd=REPOSITORY).stdout.splitlines()[1:]
    assert [line.split()[0] for line in shown] == found


def test_what_is_prepared(tmp_path: Path) -> None:
    usps.write_archive(tmp_path)
    (made,) = recordzoo.prepare("usps.test", tmp_path, check_hash=False, workers=1)
    lines = run("list", "--prepared", "--root", tmp_path, cwd=REPOSITORY).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "usps.test"]
    assert lines[1].endswith(str(made))
    (found,) = json.loads(run("list", "--prepared", "--root", tmp_path, "--json", cwd=REPOSITORY).stdout)["prepared"]
    assert (found["name"], found["path"]) == ("usps.test", str(made))
    assert found["size_bytes"] == sum(path.stat().st_size for path in made.iterdir())
    nothing = run("list", "--prepared", "--root", tmp_path, "--task", "detection", cwd=REPOSITORY)
    assert "No dataset of the catalogue is prepared" in nothing.stderr


def test_number_of_images() -> None:
    found = {name: catalogue.entry(name).num_images for name in ("cub200", "mnist", "voc", "svhn", "eurosat")}
    assert found == {"cub200": 11_788, "mnist": 70_000, "voc": 11_540, "svhn": 99_289, "eurosat": 27_000}
    assert all(catalogue.entry(name).num_images for name in catalogue.names())
