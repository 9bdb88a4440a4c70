"""`LSUNRecord` and `LSUNClassRecord`: torchvision's LSUN classes from records, one set for each category and split."""

import bisect
import contextlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

from torchvision.datasets import LSUN, LSUNClass

from recordzoo import catalogue
from recordzoo.datasets.lsun_recipe import ENDING, key_of
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.families.base import Pair, Root, Transform, ZooDataset, checked
from recordzoo.families.derived import derived
from recordzoo.families.selection import Selection
from recordzoo.images.decode import RecordName, naming, open_picture
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader, is_record_set


class LSUNClassRecord(ZooDataset, LSUNClass):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `LSUNClass`, read from records: the images of one category and split.

    Nothing is pickled into the working directory, and there is no ``env``. Converting a zip needs room for the unpacked
    database where temporary files are (``TMPDIR``); converting the database's folder does not.

    Args:
        root: The database's folder, "<category>_<split>_lmdb" or "test_lmdb"; or the record set. Instead of the folder
            there may be its zip, "<category>_<split>_lmdb.zip".
        target_transform: Applied to the target, which is None.

    Raises:
        ArgumentError: The folder's name is not one of LSUN's.
        OtherSourceError: The record set is one of another dataset.

    Examples:
        >>> dataset = LSUNClassRecord("data/bedroom_val_lmdb")
        >>> image, _ = dataset[0]
    """

    _ENTRY = "lsun"
    _ITEMS = "keys"

    def __init__(
        self,
        root: str,
        transform: Transform = None,
        target_transform: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        folder = Url.parse(root) if is_url(root) else Path(os.path.expanduser(root)).absolute()
        is_given = folder.name.endswith(".records") if isinstance(folder, Url) else is_record_set(folder)
        self._part = self._part_of_set(folder) if is_given else self._part_of_database(folder)
        self._start(folder if is_given else folder.parent, transform=transform, target_transform=target_transform)
        self._show(Selection(self._open_part(download=None, options=options)))
        self.root = os.fspath(folder) if isinstance(folder, Url) else os.path.expanduser(os.fspath(root))
        self.length = len(self._selection)

    def _part_of_set(self, path: Path | Url) -> str:
        manifest = RecordReader(path).manifest
        if manifest.dataset != self._ENTRY:
            found = ".".join(filter(None, (manifest.dataset, manifest.part)))
            raise OtherSourceError(
                f"{type(self).__name__}: {path} is a record set of {found}, not of {self._ENTRY}.", path=str(path)
            )
        return manifest.part

    def _part_of_database(self, folder: Path | Url) -> str:
        part = folder.name.removesuffix(ENDING)
        if part not in {known.name for known in catalogue.entry(self._ENTRY).parts}:
            raise ArgumentError(
                f"{folder} is not named like a database of LSUN: those are called <category>_<split>{ENDING} (as "
                f"bedroom_val{ENDING}), or test{ENDING}."
            )
        return part

    @derived
    def keys(self) -> list[bytes]:
        """The keys of the database."""
        return list(map(key_of, self._selection.names()))

    def __getitem__(self, index: int) -> Pair:
        """Return (RGB PIL image, None).

        Raises:
            KeyError: A key that was assigned is not in the record set.
        """
        reader, position = self._selection.reader, self._position(index)
        with naming(reader.path, RecordName(reader, position)):
            image: Any = open_picture(reader, position).convert("RGB")
        return self._transformed(image, None)

    def __len__(self) -> int:
        return self.length

    def _position(self, index: int) -> int:
        number = self._as_opened("keys", index)
        if number is not None:
            return self._selection.position(number)
        key, names = self.keys[index], self._selection.reader.names
        position = bisect.bisect_left(names, key, key=key_of)
        if position == len(names) or key_of(names[position]) != key:
            raise KeyError(key)
        return position


class LSUNRecord(ZooDataset, LSUN):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `LSUN`, read from records; each category and split is a record set of its own.

    Args:
        root: Where the databases' folders, or their zips, are.
        classes: "train", "val" or "test"; or which categories: ``["bedroom_train", "tower_val"]``.
        target_transform: Applied to the target: the number of the category among `classes`.

    Raises:
        ArgumentError: `records_dir` is given for several categories.

    Examples:
        >>> dataset = LSUNRecord("data", classes=["bedroom_val", "tower_val"])
        >>> image, label = dataset[0]
    """

    _ENTRY = "lsun"
    _DATABASE: ClassVar[type[LSUNClassRecord]] = LSUNClassRecord

    def __init__(
        self,
        root: Root,
        classes: str | list[str] = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        chosen = self._chosen(options)
        self._start(root, transform=transform, target_transform=target_transform)
        self.classes = checked(self._verify_classes, classes)
        if chosen.records_dir is not None and len(self.classes) > 1:
            raise ArgumentError(
                f"Argument records_dir names one record set, but there are several: {self.classes}. Leave it out."
            )
        paths = [os.path.join(self.root, f"{name}{ENDING}") for name in self.classes]
        self.dbs = [self._DATABASE(path, transform, **options) for path in paths]
        self.indices = list(itertools.accumulate(map(len, self.dbs)))
        self.length = sum(map(len, self.dbs))

    def __len__(self) -> int:
        return self.length

    @property
    def records_path(self) -> Path | Url:
        """The directory that the record sets are in; each of `dbs` knows its own."""
        return Url.parse(self.root) if is_url(self.root) else Path(self.root)

    def read(self, index: int, field: str = "image") -> bytes:
        """See `ZooDataset`."""
        number = bisect.bisect_right(self.indices, index)  # as torchvision counts: -1 is the last of the first category
        return self.dbs[number].read(index - ([0, *self.indices][number]), field)

    def _summary(self, kind: str, num_samples: int, note: str = "") -> str:
        """See `ZooDataset`."""
        count = len(self.dbs)
        note = f"images of the first of {count} categories: {self.classes[0]}" if count > 1 else ""
        return self.dbs[0]._summary(kind, num_samples, note)

    def _hint(self, indices: Sequence[int]) -> None:
        with contextlib.suppress(TypeError):  # __getitem__ will say so
            for db, start, stop in zip(self.dbs, [0, *self.indices], self.indices, strict=False):
                db._hint([index - start for index in indices if start <= index < stop])
