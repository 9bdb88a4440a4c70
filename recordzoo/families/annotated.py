"""`AnnotatedDataset`: a folder of images, and an annotation file that says which are samples, with which targets.

The images are stored once for their folder, whatever reads them: the record set lies beside the folder. The annotation
file is read when the dataset is opened: from the disk, or from the record set if that holds one of its name.
"""

import contextlib
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from recordzoo import catalogue
from recordzoo.errors import ArgumentError, OtherSourceError, RecordError
from recordzoo.families.base import Root, ZooDataset, is_unchanged, snapshot
from recordzoo.families.folders import Loader, PathLoader, as_file
from recordzoo.families.selection import Selection
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import ANNOTATIONS, dataset_recipe
from recordzoo.recipes.folders import FlatRecipe
from recordzoo.recipes.recipe import Recipe
from recordzoo.records.reader import RecordReader

# Any, in all of this module: ids and attributes are what annotation files have.


class AnnotatedDataset(ZooDataset):
    """`ZooDataset` whose attributes are read from an annotation file, as in torchvision; "ids" is one of them.

    A pickle has these attributes only if they were changed: where it is opened, the annotation file is read again.
    Changes within an attribute are noticed in lists and in dicts of lists; of any other, assign the changed object.

    Attributes:
        _USUAL: Names of the annotation files that are read if none is given, the first that the record set holds;
            ``{part}`` is the part of the catalogue's dataset.
        _file: The annotation file.
        _parsed: What was made of it, unchangeable: its snapshot.
    """

    _ITEMS = "ids"
    _USUAL: ClassVar[Sequence[str]]
    _loader: PathLoader
    _file: "AnnotationFile"
    _parsed: Mapping[str, object]
    ids: list[Any]

    @abstractmethod
    def _parse(self, path: str) -> dict[str, Any]:
        """Read an annotation file: attributes by name."""

    @abstractmethod
    def _image_path(self, id: Any) -> str:
        """Return the path of a sample's image, existing or not."""

    def _open_annotated(
        self, annotations: Root | None, loader: Loader, *, download: bool, options: PrepareOptions
    ) -> None:
        """Open the record set of the images; prepare it if it is not there; then read the annotation file.

        A folder that is called like the record set of a part is taken for that part, whose annotation files lie beside
        it. For any other folder, its images are prepared as by `recordzoo prepare FOLDER --from flat`.
        """
        # For a URL only the name counts.
        folder = Path(self.root).expanduser().absolute()
        entry = catalogue.entry(self._ENTRY)
        part = next((part.name for part in entry.parts if entry.set_name(part.name) == folder.name), None)
        recipe: Recipe = FlatRecipe() if part is None else dataset_recipe(self._ENTRY, part, self.raw_files)
        reader = self._open(
            recipe,
            download=download and part is not None,
            options=self._chosen(options),
            raw_root=folder if part is None else folder.parent,
        )
        root = os.path.expanduser(os.fspath(self.root))
        self._loader = PathLoader(loader, reader, root, keeps_names=True)
        usual = [name.format(part=reader.manifest.part) for name in self._USUAL]
        self._file = AnnotationFile.find(reader, annotations, usual)
        self._read_annotations()

    @override
    def _check_source(self, reader: RecordReader, recipe: Recipe) -> None:
        # Whose images they are does not matter: the annotation file says which of them are samples.
        if "image" not in reader.manifest.blobs:
            raise OtherSourceError(f"{type(self).__name__}: {reader.path} holds no images.", path=str(reader.path))

    def _read_annotations(self) -> None:
        """Set the missing attributes from the annotation file, and show the images of its samples."""
        reader = self._loader.reader
        with self._file.opened(reader) as path:
            parsed = self._parse(path)
        self._parsed = {name: snapshot(value) for name, value in parsed.items()}
        for name, value in parsed.items():
            self.__dict__.setdefault(name, value)
        found = []
        for id in self.ids:
            with contextlib.suppress(LookupError, TypeError):  # an image that is missing, or an id of the user's own
                found.append(self._loader.find(self._image_path(id)))
        positions = [position for position in found if position is not None]
        self._show(Selection(reader, positions=np.array(positions, np.int64)))

    @override
    def _position(self, index: int) -> int | None:
        return self._loader.find(self._image_path(self.ids[index]))

    @override
    def _hint(self, indices: Sequence[int]) -> None:
        with contextlib.suppress(LookupError, TypeError):  # __getitem__ will say so
            positions = [position for index in indices if (position := self._position(index)) is not None]
            if len(positions) > 1:
                self._hint_positions(positions)

    @override
    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        same = [name for name, kept in self._parsed.items() if name in state and is_unchanged(state[name], kept)]
        return {name: value for name, value in state.items() if name not in ("_parsed", "_selection", *same)}

    @override
    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(state)
        self._read_annotations()


@dataclass(frozen=True)
class AnnotationFile:
    """Where an annotation file is.

    Attributes:
        path: Its path, absolute; that of one in the record set is only its name.
        position: Its position in the record set; None for one on the disk.
        state: Size and time of one on the disk.
    """

    path: str
    position: int | None
    state: tuple[int, int] | None = None

    @classmethod
    def find(cls, reader: RecordReader, given: Root | None, usual: Sequence[str]) -> "AnnotationFile":
        """Find the given file, on disk or by its name in the record set; by default the first usual one that exists.

        One that is nowhere is taken to be on the disk: to open it raises what torchvision raises.
        """
        path = None if given is None else os.path.abspath(os.path.expanduser(os.fspath(given)))
        if path is not None and os.path.exists(path):
            return cls(path, None, _state(path))
        stored = _stored(reader)
        for name in usual if path is None else [os.path.basename(path)]:
            if name in stored:
                return cls(name, stored[name])
        if path is not None:
            return cls(os.fspath(given or ""), None)
        held = f"holds only {', '.join(stored)}" if stored else "holds no annotation files"
        raise ArgumentError(
            f"{reader.path} {held}: pass an annotation file. One that is read by default is called "
            f"{' or '.join(usual)}; if it lies beside the images now, prepare again with refresh=True.",
            path=str(reader.path),
        )

    @contextlib.contextmanager
    def opened(self, reader: RecordReader) -> Iterator[str]:
        """Give the file a path; refuse it if it has changed."""
        if self.position is not None:
            with as_file(reader.read(ANNOTATIONS, self.position), self.path) as path:
                yield path
            return
        if self.state is not None and self.state != _state(self.path):
            raise RecordError(f"{self.path} has changed since the dataset was opened. Open it again.", path=self.path)
        yield self.path


def _state(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _stored(reader: RecordReader) -> dict[str, int]:
    """Return the positions of the annotation files that a record set holds, by their names without folder."""
    if ANNOTATIONS not in reader.manifest.blobs:
        return {}
    positions = np.flatnonzero(reader.lengths(ANNOTATIONS)).tolist()
    return {reader.names[position].rpartition("/")[2]: position for position in positions}
