"""How GTSRB, Places365 and Stanford Cars become records: a list of paths and labels for each split."""

import csv
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from typing_extensions import override

from recordzoo.base.text import text_of
from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import (
    ClassFolderRecipe,
    Files,
    ListedRecipe,
    Lists,
    class_folder_order,
    integer,
    name_key,
)
from recordzoo.recipes.recipe import NO_TARGET, Blob, Sidecar, Table

GTSRB_FOLDERS = {"train": "GTSRB/Training/", "test": "GTSRB/Final_Test/Images/"}
"""The folder that the names of each part's records are relative to."""

_GTSRB_LIST = "GT-final_test.csv"


class GTSRBTraining(ClassFolderRecipe):
    """Photographs in a folder for each class, in tracks of 30 of the same sign."""

    top = GTSRB_FOLDERS["train"]
    endings = (".ppm",)


class GTSRBTest(ListedRecipe):
    """Photographs in one folder, in the order of the list."""

    lists = (_GTSRB_LIST,)
    files = {"image": (GTSRB_FOLDERS["test"], (".ppm",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        where = f"{self.set_name}: {_GTSRB_LIST}"
        lines = text_of(lists[_GTSRB_LIST], where).splitlines()
        reader = csv.DictReader(lines, delimiter=";", skipinitialspace=True)
        listed: list[str] = []
        labels: dict[str, int] = {}
        try:
            for row in reader:
                listed.append(row["Filename"])
                labels[row["Filename"]] = integer(row["ClassId"], where, reader.line_num)
        except (KeyError, TypeError) as err:
            raise SourceError(f"{where} is no list of files and their classes ({err!r}).") from err
        names = sorted(labels, key=name_key)
        return Table(
            names=names,
            arrays={"target": np.array([labels[name] for name in names], np.int64)},
            splits={"test": listed},
            classes=[f"{label:05d}" for label in range(self.entry.num_classes or 0)],  # as the folders for training
        )


_PLACES_CATEGORIES = "categories_places365.txt"


class Places365(ListedRecipe):
    """A part for each split and size: "train-standard", "train-standard-small", "val", ...

    Names are relative to the folder of the images. Archives of training images have another folder than torchvision
    gives them: "data_256/", which it renames to "data_256_standard/" or "data_256_challenge/".
    """

    @property
    def split(self) -> str:
        """torchvision's name of the split."""
        return self.part.removesuffix("-small")

    @property
    def list_file(self) -> str:
        """The list of the split's images."""
        return f"places365_{self.split.replace('-', '_')}.txt"

    @property
    @override
    def lists(self) -> Sequence[str]:
        return (_PLACES_CATEGORIES, self.list_file)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        size = "256" if self.part.endswith("-small") else "large"
        kind, _, variant = self.split.partition("-")
        folder = f"data_{size}_{variant}/" if variant else f"{kind}_{size}/"
        return {"image": (folder, (".jpg",))}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        folder, _ = self.files["image"]
        packed = folder.removesuffix("_standard/").removesuffix("_challenge/").removesuffix("/") + "/"
        if member.name.startswith(packed):
            member = dataclasses.replace(member, name=folder + member.name.removeprefix(packed))
        yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        listed, labels = [], []
        data, where = lists[self.list_file], f"{self.dataset}: {self.list_file}"
        text_of(data, where)  # refuses what is not UTF-8
        for number, line in enumerate(io.BytesIO(data), 1):  # of 8 million lines
            if row := line.split():
                listed.append(row[0].decode().lstrip("/"))
                labels.append(integer(row[1], where, number) if len(row) > 1 else NO_TARGET)
        order = class_folder_order(listed)
        positions = np.empty_like(order)
        positions[order] = np.arange(len(order))
        return Table(
            names=[listed[place] for place in order.tolist()],
            arrays={"target": np.array(labels, np.int64)[order]},
            splits={self.split: positions},
            classes=_place_names(lists),
        )


def _place_names(lists: Lists) -> list[str]:
    """Return the names of the classes in the order of their labels."""
    name_of = {row.integer(1): row[0] for row in lists.rows(_PLACES_CATEGORIES, columns=2)}
    if sorted(name_of) != list(range(len(name_of))):
        raise SourceError(
            f"Places365: the labels in {_PLACES_CATEGORIES} do not count from 0. Download the file again."
        )
    return [name_of[label] for label in range(len(name_of))]


CARS_ANNOTATIONS = {"train": "devkit/cars_train_annos.mat", "test": "cars_test_annos_withlabels.mat"}
_CARS_META = "devkit/cars_meta.mat"


class StanfordCars(ListedRecipe):
    """The annotated photographs, sorted by name; the split has the order of the annotations."""

    @property
    @override
    def lists(self) -> Sequence[str]:
        return (CARS_ANNOTATIONS[self.part], _CARS_META)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"cars_{self.part}/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        rows = np.atleast_1d(lists.mat(CARS_ANNOTATIONS[self.part])["annotations"])
        label_of = {str(row["fname"]): int(row["class"]) - 1 for row in rows}  # classes are counted from 1
        names = sorted(label_of)
        return Table(
            names=names,
            arrays={"target": np.array([label_of[name] for name in names], np.int64)},
            splits={self.part: [str(row["fname"]) for row in rows]},
            classes=np.atleast_1d(lists.mat(_CARS_META)["class_names"]).tolist(),
        )
