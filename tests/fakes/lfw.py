"""Labeled Faces in the Wild by code: a folder for each person, lists of people and of pairs; the archive has others."""

from collections.abc import Mapping
from typing import Any

from numpy.random import Generator

from tests.fakes.fake import Case, by, fake, md5, tar, text
from tests.fakes.mutations import Mutations, change, change_item, rearranged
from tests.fakes.pictures import encoded, jpeg, picture
from tests.fakes.scale import scaled

SETS = {
    "original": ("lfw", "lfw.tgz"),
    "funneled": ("lfw_funneled", "lfw-funneled.tgz"),
    "deepfunneled": ("lfw-deepfunneled", "lfw-deepfunneled.tgz"),
}
PEOPLE = {"AJ_Cook": 1, "Aaron_Eckhart": 2, "Abdullah": 3, "Abdullah_Gul": 4, "Zoran_Djindjic": 2, "al-Sadr": 1}
PEOPLE = {name: scaled(count) for name, count in PEOPLE.items()}

PEOPLE_MUTATIONS: Mutations = {
    **rearranged("data", "data", "one path", by=3, keep=2),
    "targets assigned": change("targets", lambda targets: [0] * len(targets)),
    "a target replaced": change_item("targets", 1, lambda targets: 99),
}
PAIRS_MUTATIONS: Mutations = {**PEOPLE_MUTATIONS, "one pair turned": change_item("data", 1, lambda data: data[1][::-1])}


def _fold(people: list[str]) -> list[str]:
    return [str(len(people)), *(f"{name}\t{PEOPLE[name]}" for name in people)]


def _lists() -> dict[str, list[str]]:
    names = list(PEOPLE)
    return {
        "people.txt": ["2", *_fold(names[3:]), *_fold(names[:3])],
        "peopleDevTrain.txt": _fold(names[1:4]),
        "peopleDevTest.txt": _fold([names[0], names[4]]),
        "pairs.txt": [
            f"2\t{scaled(2)}",
            *("Abdullah_Gul\t1\t4", "Abdullah\t3\t1") * scaled(1),
            *("AJ_Cook\t1\tAbdullah\t2", "Abdullah\t2\tAbdullah_Gul\t2") * scaled(1),
            *("Aaron_Eckhart\t2\t1", "Abdullah\t1\t3") * scaled(1),
            *("al-Sadr\t1\tAaron_Eckhart\t2", "Abdullah\t1\tAJ_Cook\t1") * scaled(1),
        ],
        "pairsDevTrain.txt": [
            "2",
            *("Abdullah_Gul\t3\t2", "Zoran_Djindjic\t1\t2"),
            *("Abdullah\t1\tal-Sadr\t1", "AJ_Cook\t1\tAaron_Eckhart\t1"),
        ],
        "pairsDevTest.txt": ["1", "Abdullah\t2\t1", "Zoran_Djindjic\t2\tAJ_Cook\t1"],
        "lfw-names.txt": [f"{name}\t{count}" for name, count in PEOPLE.items()],
    }


_ARGUMENTS = (
    {},
    *({"split": split, "image_set": image_set} for split in ("10fold", "train", "test") for image_set in SETS),
    {"split": "TRAIN", "image_set": "Original"},
)
_BAD = (*by("split", "val", 10), *by("image_set", "aligned", None))


def _hashes(files: Mapping[str, bytes]) -> Mapping[str, Any]:
    return {
        "file_dict": {image_set: (folder, name, md5(files[name])) for image_set, (folder, name) in SETS.items()},
        "checksums": {name: md5(files[name]) for name in _lists()},
    }


@fake(
    "lfw",
    Case("LFWPeopleRecord", _ARGUMENTS, _BAD, PEOPLE_MUTATIONS, _hashes),
    Case("LFWPairsRecord", _ARGUMENTS, _BAD, PAIRS_MUTATIONS, _hashes),
    keeps_archives=True,
)
def lfw(rng: Generator) -> dict[str, bytes]:
    """A folder for each person, in an archive for each image set."""
    files = {name: text(lines) for name, lines in _lists().items()}
    for image_set, (folder, archive) in SETS.items():
        images = {
            f"{folder}/{name}/{name}_{number:04d}.jpg": jpeg(picture(rng, 20 + number % 20, 24))
            for name, count in reversed(PEOPLE.items())
            for number in range(1, count + 1)
        }
        images[f"{folder}/AJ_Cook/AJ_Cook_0001.jpg"] = encoded(picture(rng, 22, 22).convert("L"), "JPEG")
        if image_set == "funneled":
            images[f"{folder}/pairs_01.txt"] = images[f"{folder}/pairs.txt"] = b"not read"
        files[archive] = tar(images)
    return files
