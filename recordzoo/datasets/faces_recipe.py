"""How CelebA, LFW and WIDER FACE become records: photographs, and lists of faces, of people and of pairs."""

import csv
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

from recordzoo.base.text import lines_of, text_of
from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import Files, ListedRecipe, Lists, Row, class_labels, name_key
from recordzoo.recipes.recipe import Blob, Sidecar, Stored, Table, present
from recordzoo.records.manifest import BlobSpec, FieldKind, FieldSpec

_CELEBA_LIST = "list_eval_partition.txt"
_CELEBA_ATTRIBUTES = "list_attr_celeba.txt"
_CELEBA_COLUMNS: Mapping[str, tuple[str, int, DTypeLike]] = {
    "attr": (_CELEBA_ATTRIBUTES, 2, np.int8),
    "identity": ("identity_CelebA.txt", 0, np.int32),
    "bbox": ("list_bbox_celeba.txt", 2, np.int32),
    "landmarks_align": ("list_landmarks_align_celeba.txt", 2, np.int32),
}
"""For each array: its file, the number of header lines, and its type."""

_CELEBA_SPLITS = ("train", "valid", "test")


class CelebA(ListedRecipe):
    """All photographs, sorted by name. The splits, and "all", have the order of the list.

    Rows of the files belong together by their numbers, as in torchvision.
    """

    lists = (_CELEBA_LIST, *(name for name, _, _ in _CELEBA_COLUMNS.values()))
    files = {"image": ("img_align_celeba/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        listed = lists.rows(_CELEBA_LIST, columns=2)
        order = np.array(sorted(range(len(listed)), key=lambda row: listed[row][0]), np.int64)
        position = np.argsort(order)
        partition = np.array([row.integer(1) for row in listed], np.int64)
        splits = {split: position[partition == number] for number, split in enumerate(_CELEBA_SPLITS)}
        # The header ends with a space: torchvision has an empty name there.
        header = lines_of(text_of(lists[_CELEBA_ATTRIBUTES], f"{self.dataset}: {_CELEBA_ATTRIBUTES}"))[1]
        attributes = next(csv.reader([header], delimiter=" ", skipinitialspace=True))
        return Table(
            names=[listed[row][0] for row in order.tolist()],
            arrays={field: _numbers(lists, *column, len(listed))[order] for field, column in _CELEBA_COLUMNS.items()},
            splits={**splits, "all": position},
            fields={"attr": FieldSpec(FieldKind.MULTILABEL, tuple(attributes)), "bbox": FieldSpec(FieldKind.BOXES)},
            default_target="attr",
        )


def _numbers(lists: Lists, name: str, skipped: int, dtype: DTypeLike, count: int) -> NDArray[np.integer]:
    """Return the numbers of a file, [count, columns], without the names at the beginning of its lines."""
    rows, bits = lists.rows(name)[skipped:], 8 * np.dtype(dtype).itemsize
    if len(rows) != count:
        raise SourceError(f"CelebA: {name} has {len(rows):,} rows, but {_CELEBA_LIST} lists {count:,} images.")
    return np.array([[row.integer(column, bits) for column in range(1, len(row))] for row in rows], dtype)


LFW_FOLDERS = {"original": "lfw", "funneled": "lfw_funneled", "deepfunneled": "lfw-deepfunneled"}
_LFW_NAMES = "lfw-names.txt"
SECOND = "-second"
"""Suffix of the split with the second image of each pair; the split without it has the first images."""

_LFW_LISTS = {"10fold": "", "train": "DevTrain", "test": "DevTest"}


def lfw_list(view: str, split: str) -> str:
    """Name the list of a split: "people.txt", "pairsDevTrain.txt"."""
    return f"{view}{_LFW_LISTS[split]}.txt"


class LFW(ListedRecipe):
    """All images of an image set in ImageFolder's order; both classes show them.

    The splits are called "people-10fold", "pairs-train", ... Those whose list is missing are left out. Labels count the
    names of ``lfw-names.txt``, or the folders, which are the same.
    """

    lists = (*(lfw_list(view, split) for view in ("people", "pairs") for split in _LFW_LISTS), _LFW_NAMES)

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"{LFW_FOLDERS[self.part]}/", (".jpg",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted(keys["image"], key=name_key)
        classes, target = class_labels(names)
        if _LFW_NAMES in lists:
            listed = [row[0] for row in lists.rows(_LFW_NAMES)]
            label_of = {name: label for label, name in enumerate(listed)}
            target = np.array([label_of.get(name, -1) for name in classes], np.int64)[target]
            classes = listed
        splits: dict[str, Sequence[str] | NDArray[np.int64]] = {}
        for split in _LFW_LISTS:
            if (name := lfw_list("people", split)) in lists:
                splits[f"people-{split}"] = list(_people(lists.rows(name)))
            if (name := lfw_list("pairs", split)) in lists:
                pairs = list(_pairs(name, lists.rows(name)))
                splits[f"pairs-{split}"] = [first for first, _ in pairs]
                splits[f"pairs-{split}{SECOND}"] = [second for _, second in pairs]
        return Table(names=names, arrays={"target": target}, splits=splits, classes=classes)

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`. If a broken image is left out, the other image of its pair is left out, too."""
        table = super().build_table(stored, sidecars)
        skipped = stored.skipped.get("image", frozenset())
        splits = dict(table.splits)
        for second in [name for name in splits if name.endswith(SECOND)]:
            first = second.removesuffix(SECOND)
            pairs = [pair for pair in zip(splits[first], splits[second], strict=True) if skipped.isdisjoint(pair)]
            splits[first], splits[second] = ([pair[side] for pair in pairs] for side in range(2))
        return table.with_splits(splits)


def _image(person: str, number: int) -> str:
    return f"{person}/{person}_{number:04d}.jpg"


def _people(rows: Sequence[Row]) -> Iterator[str]:
    """List all images of the people of a list. Rows are a name and a number of images, or a number of rows."""
    for row in rows:
        for number in range(1, row.integer(1) + 1 if len(row) > 1 else 1):
            yield _image(row[0], number)


def _pairs(name: str, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """List the pairs of a list: in each fold first those of one person, then as many of two."""
    head, *body = rows
    in_fold = head.integer(-1)
    for number, row in enumerate(body):
        is_same = number % (2 * in_fold) < in_fold
        if len(row) != (3 if is_same else 4) or (not is_same and row[0] == row[2]):
            people = "one person" if is_same else "two people"
            raise SourceError(f"LFW: {name} has {' '.join(row)!r} where a pair of {people} should be.")
        yield _image(row[0], row.integer(1)), _image(row[-2] if len(row) == 4 else row[0], row.integer(-1))


class WiderFace(ListedRecipe):
    """The images of a split, there or only listed, by name; the split has the order of its list."""

    @property
    @override
    def lists(self) -> Sequence[str]:
        ending = "filelist" if self.part == "test" else "bbx_gt"
        return [f"wider_face_split/wider_face_{self.part}_{ending}.txt"]

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"WIDER_{self.part}/images/", (".jpg",))}

    @property
    @override
    def fields(self) -> Mapping[str, BlobSpec]:  # type: ignore[override]  # a constant of other recipes
        faces = {} if self.part == "test" else {"annotation": BlobSpec("bytes")}
        return {**super().fields, **faces}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        for found in super().extract(member):
            if isinstance(found, Sidecar) and self.part != "test":
                faces = _faces_of(found)
                for name, lines in faces.items():
                    yield Blob("annotation", name, lines)
                found = Sidecar(found.name, "\n".join(faces).encode("utf-8", "surrogateescape"))
            yield found

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        text = lists[self.lists[0]].decode("utf-8", "surrogateescape")
        listed = [line.rstrip() for line in text.splitlines() if line.strip()]
        names = sorted({*keys["image"], *listed}, key=name_key)
        found = {field: present(names, stored) for field, stored in keys.items()}
        return Table(names=names, keys=found, splits={self.part: listed})


def _faces_of(annotations: Sidecar) -> dict[str, bytes]:
    """Cut an annotation file into what it has for each image: a line with a count, and as many lines of numbers.

    An image without a face has a line, too.
    """
    lines = annotations.data.rstrip().splitlines(keepends=True)
    found: dict[str, bytes] = {}
    start = 0
    while start < len(lines):
        name = lines[start].rstrip().decode("utf-8", "surrogateescape")
        try:
            stop = start + 2 + max(1, int(lines[start + 1]))
        except (ValueError, IndexError):
            stop = len(lines) + 1
        if stop > len(lines) or name in found:
            raise SourceError(f"{annotations.name} is damaged: line {start + 1} and those after it are no faces.")
        found[name] = b"".join(lines[start + 1 : stop])
        start = stop
    return found
