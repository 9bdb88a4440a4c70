"""Base of the recipes of the catalogue: find the tree or the archives."""

import dataclasses
import importlib
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from typing_extensions import override

from recordzoo import catalogue
from recordzoo.base.packages import is_installed
from recordzoo.catalogue import Entry, Layout
from recordzoo.errors import ArgumentError, PrepareError, SourceError
from recordzoo.net.download import RemoteFile
from recordzoo.raw.archive import ChainSource, raw_source
from recordzoo.raw.member import Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.base import BlobField, Recipe

_LAYOUTS = {
    "class_folders": ("recordzoo.recipes.class_folders", "ClassFolderRecipe"),
    "annotated": ("recordzoo.recipes.annotated", "AnnotatedRecipe"),
}


def dataset_recipe(
    dataset: str,
    part: str = "",
    raw_files: tuple[RemoteFile, ...] | None = None,
    member_md5s: Mapping[str, str] = MappingProxyType({}),
) -> "DeclaredRecipe":
    """Return the recipe of a part of a dataset in the catalogue.

    Args:
        dataset: The dataset's name.
        part: One of its parts.
        raw_files: Raw files to use instead of the catalogue's. Those of other parts are ignored.
        member_md5s: The MD5 of each file within the raw data that has a known one.

    Raises:
        ArgumentError: There is no such dataset or part, or `raw_files` lacks one of its files.
    """
    entry = catalogue.entry(dataset)
    if layout := entry.part(part).layout.kind:
        module, name = _LAYOUTS[layout]
        kind = getattr(importlib.import_module(module), name)
    else:
        kind = importlib.import_module(entry.recipe_module).RECIPES[dataset]
    made: DeclaredRecipe = kind(dataset, part, raw_files)
    made.member_md5s = dict(member_md5s)
    return made


class DeclaredRecipe(Recipe):
    """A recipe of a dataset in the catalogue. Its raw data is torchvision's tree under ``root``, or the raw files.

    Names of members are relative to the dataset's folder (`Entry.folder`), from the tree as from the archives.

    Args:
        dataset: The dataset's name in the catalogue.
        part: One of its parts.
        raw_files: Raw files to use instead of the catalogue's. Those of other parts are ignored.

    Raises:
        ArgumentError: There is no such part, or `raw_files` lacks one of its files.
    """

    fields = {"image": BlobField("image")}  # noqa: RUF012 - declared by Recipe, never changed
    member_md5s: Mapping[str, str] = MappingProxyType({})
    package: ClassVar[str] = ""
    """A package that reads the raw files and is not one of recordzoo's dependencies."""

    def __init__(self, dataset: str, part: str = "", raw_files: tuple[RemoteFile, ...] | None = None) -> None:
        self.dataset = dataset
        self.part = self.entry.part(part).name
        self.raw_files = _files_of_part(self.entry.raw_files(part), raw_files)
        self.expansion = self.entry.expansion
        if raw_files is None:
            self.counts = {split.name: split.count for split in self.entry.splits if split.part == self.part}

    @property
    def entry(self) -> Entry:
        """The dataset's entry in the catalogue."""
        return catalogue.entry(self.dataset)

    @property
    @override
    def set_name(self) -> str:
        return self.entry.set_name(self.part)

    @property
    def layout(self) -> Layout:
        """The layout of the raw data, from the facts."""
        return self.entry.part(self.part).layout

    def require(self, names: Collection[str]) -> None:
        """Require these raw files, even if they are optional."""
        self.raw_files = tuple(
            dataclasses.replace(file, optional=file.optional and file.name not in names) for file in self.raw_files
        )

    @abstractmethod
    def tree_names(self, base: Path) -> Sequence[str] | None:
        """List the members of the extracted tree, relative to `base`; None if there is no tree."""

    @property
    def names_folder(self) -> str:
        """The folder that names of records are relative to, itself relative to the dataset's folder."""
        return self.tree_marks[0]

    @property
    @abstractmethod
    def tree_marks(self) -> Sequence[str]:
        """Folders or files that identify the extracted tree, relative to the dataset's folder."""

    @override
    def find(self, root: Path) -> Source | None:
        self._check_package(self.package)
        base = root / self.entry.folder
        names = self.tree_names(base) if base.is_dir() else None
        if names is not None:
            return TreeSource(base, names)
        files = [file for file in self.raw_files if file.path(root).is_file()]
        if not files or not all(file.optional or file in files for file in self.raw_files):
            return None
        sources = [raw_source(file.path(root)) for file in files]
        return sources[0] if len(sources) == 1 else ChainSource(sources)

    @override
    def looked_for(self, root: Path) -> list[str]:
        files = [file.path(root).relative_to(root).as_posix() for file in self.raw_files if not file.optional]
        folder = f"{self.entry.folder}/" if self.entry.folder else ""
        return [*(folder + mark for mark in self.tree_marks), *files]

    def compare_md5(self, name: str, md5: str, folder: str = "") -> None:
        """Compare the MD5 of a file in the raw data with the expected one, if known.

        Args:
            name: The file, as `member_md5s` has it.
            md5: Its MD5.
            folder: The folder of the file, for the message.

        Raises:
            SourceError: They differ.
        """
        expected = self.member_md5s.get(name)
        if expected and md5 != expected:
            text = f"{folder}{name} is damaged: its MD5 is {md5}, not {expected}. Get it again."
            raise SourceError(text, worthless=True)

    def _check_package(self, package: str) -> None:
        # Before the download: it can take hours.
        if package and not is_installed(package):
            raise PrepareError(
                f"{self.set_name}: its raw files are read with {package}, which is not installed. "
                f"Run: pip install {package}",
                package=package,
            )


def _files_of_part(known: Sequence[RemoteFile], given: Sequence[RemoteFile] | None) -> tuple[RemoteFile, ...]:
    if given is None:
        return tuple(known)
    by_name = {file.name: file for file in given}
    if lacking := [file.name for file in known if file.name not in by_name and not file.optional]:
        raise ArgumentError(f"Argument raw_files lacks {', '.join(lacking)}; it has {', '.join(by_name) or 'none'}.")
    return tuple(by_name[file.name] for file in known if file.name in by_name)
