"""`recordzoo list`: filters, and what is prepared."""

import json
import re

import pytest

from docs.parts.overview import page_table
from recordzoo import catalogue
from recordzoo.catalogue.search import GROUPS
from tests.preparing import REPOSITORY
from tests.running import run


def names(*options: str) -> list[str]:
    printed = run("list", *options, "--json", cwd=REPOSITORY).stdout
    return [dataset["name"] for dataset in json.loads(printed)["datasets"]]


@pytest.mark.parametrize(
    ("options", "has", "lacks"),
    [
        (["--task", "Detection"], "voc", "imagenet_o"),  # whose task is "outlier detection"
        (["--task", "fine-grained"], "cub200", "cifar10"),
        (["--license", "CC BY-SA 4.0"], "kmnist", "mnist"),
        (["--license", "any open license"], "kmnist", "imagenet"),
        (["--obtained", "terms"], "imagenet", "mnist"),
        (["--obtained", "partly"], "lfw", "mnist"),
        (["--checked", "lists"], "nabirds", "eurosat"),
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


@pytest.mark.parametrize("words", [("--license", "commercial"), ("--license", "cc"), ("--task", "outlier")])
def test_a_part_of_a_value_is_no_filter(words: tuple[str, str]) -> None:
    """ "commercial" would be those that forbid it: "non-commercial"."""
    result = run("list", *words, cwd=REPOSITORY)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{words[0]} {words[1]!r} is none of " in result.stderr


def test_groups_of_licenses_are_those_of_the_site() -> None:
    page = page_table()
    found = set(re.findall(r'data-license="(?:any )?([^"|]+)', page))
    assert found == set(GROUPS)
    for group in GROUPS:
        rows = re.findall(rf'<tr[^>]*data-license="(?:any )?{group}[|"].*?<code>(\w+)</code>', page)
        assert sorted(rows) == names("--license", group)


def test_number_of_images() -> None:
    found = {name: catalogue.entry(name).num_images for name in ("cub200", "voc", "svhn")}
    assert found == {"cub200": 11_788, "voc": 11_540, "svhn": 99_289}
    assert all(catalogue.entry(name).num_images for name in catalogue.names())
