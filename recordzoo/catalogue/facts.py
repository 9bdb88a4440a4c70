"""What is known of a dataset without having it: plain facts, no behaviour beyond looking them up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recordzoo.base.meant import did_you_mean
from recordzoo.errors import ArgumentError

if TYPE_CHECKING:
    from recordzoo.net.download import RemoteFile


CHECKED = {
    "bytes": "The recipe has prepared the whole real files.",
    "lists": "The recipe has read real lists, or a part of the real files; the layout of the rest is from sources.",
    "layout": "The recipe has read only generated files; the layout of the real ones is from sources.",
}
"""How a recipe was checked, and what that means."""

OBTAINED = {
    "download": "downloaded",
    "terms": "downloaded after you accepted the terms of access",
    "partly": "downloaded; some files by hand",
    "by hand": "you fetch the raw files yourself",
}
"""How raw files are had, and what that means."""


CONVERT_SPEED = 130e6
"""Bytes of raw data that one core converts per second: `benchmarks/prepare_imagenet.py`, 1.1 GB in 8.3 s of CPU."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What it takes to prepare a dataset by its name: estimates. None: unknown, because a file's size is unknown.

    Attributes:
        kept_bytes: The record sets, which stay on the disk; the raw files may be deleted then.
        needed_bytes: Record sets and raw files together: the peak of disk during the preparation.
        convert_seconds: Time to convert on one core, at `CONVERT_SPEED`; without the download, and on a fast disk.
    """

    kept_bytes: int | None = None
    needed_bytes: int | None = None
    convert_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """How the recipe of a dataset was checked.

    Attributes:
        by: "bytes", "lists" or "layout": see `CHECKED`.
        date: The day, "2026-11-24".
        source: The files that the recipe read, and where they are from.
    """

    by: str
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Where what is in the raw data, for a recipe that needs no code of its own.

    Attributes:
        kind: Which recipe: "class_folders" or "annotated"; "": the recipe is code.
        top: The folder above the class folders, or that of the images, with a "/" at its end.
        folders: For each split its folder below `top`; empty if the class folders are right there.
        endings: What images end with, in lower case; empty: as torchvision's ImageFolder has it.
        annotations: Patterns of the names of annotation files, as `fnmatch` has them.
    """

    kind: str = ""
    top: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    endings: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """Raw data that is obtained, converted and published on its own: one record set.

    Attributes:
        name: "train", "segmentations", or "" if it is the only one or the main one.
        description: What is in it.
        optional: Prepared only when it is asked for by name.
        set_name: Its record set's directory name without its ending; "" where that is the part's label.
        arguments: Constructor arguments with which a dataset class opens this part.
        layout: Where what is in its raw data.
    """

    name: str
    description: str = ""
    optional: bool = False
    set_name: str = ""
    arguments: Mapping[str, str | int] = field(default_factory=dict)
    layout: Layout = Layout()


@dataclass(frozen=True, slots=True)
class Split:
    """A named list of positions: how many samples, and in which part.

    Attributes:
        name: What the dataset class calls it.
        count: Number of samples.
        part: The part that holds them.
    """

    name: str
    count: int
    part: str = ""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of a raw file.

    Attributes:
        name: The file's name, in the user's folder and on a mirror.
        parts: The parts that are made from it.
        urls: Where it is, in the order of trying.
        size_bytes: Its exact size, where known.
        about_bytes: Its approximate size, where only that is known.
        md5: Its MD5, where known.
        sha256: Its SHA-256, where known.
        unconfirmed: The MD5 is known from one loader and its copies alone.
        needs_terms: The URLs may be used only after accepting the host's terms of access.
        optional: Its parts are also made without it, as far as that goes.
    """

    name: str
    parts: tuple[str, ...] = ("",)
    urls: tuple[str, ...] = ()
    size_bytes: int | None = None
    about_bytes: int | None = None
    md5: str | None = None
    sha256: str | None = None
    unconfirmed: bool = False
    needs_terms: bool = False
    optional: bool = False

    @property
    def expected_bytes(self) -> int | None:
        """Its size, exact or about; None if neither is known."""
        return self.about_bytes if self.size_bytes is None else self.size_bytes

    @property
    def hashes(self) -> str:
        """The hashes of which the file must have one, as ``sha256:<hex> or md5:<hex>``; "" if none is known."""
        md5 = None if self.sha256 and self.unconfirmed else self.md5
        return " or ".join(f"{name}:{digest}" for name, digest in (("sha256", self.sha256), ("md5", md5)) if digest)


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a dataset without having it.

    Attributes:
        name: What it is called on the command line: "cub200".
        module: The module of its classes, which datasets of one origin share: "cifar".
        title: What people call it: "CUB-200-2011".
        summary: One sentence.
        task: "classification", "detection", "segmentation", ...
        homepage: Where it comes from.
        license: Under what terms it may be used, as far as its authors say.
        license_source: Where the license was read, or where it was looked for in vain: an address or a sentence.
        citation: What to cite.
        checked: How its recipe was checked.
        class_names: Its dataset classes, as they are imported from `recordzoo`.
        parts: Its record sets.
        files: Its raw files, in the order of reading.
        splits: Its splits.
        images: Number of images, where that is not the sum of its splits, which may overlap.
        num_classes: Number of classes, where it has classes.
        classes: Names of the classes in the order of their labels, where the raw files do not have them.
        folder: Where torchvision keeps its raw files and the extracted tree, relative to ``root``; "" for ``root``.
        expansion: Estimated size of the records divided by that of the raw files. The default is that of photographs
            of 110 KB on average, which no archive makes smaller (benchmarks/size.py).
        instructions: How to fetch its files by hand, where that may be needed.
        differences: Where its classes differ from torchvision's on purpose; a sentence each.
    """

    name: str
    module: str
    title: str
    summary: str
    task: str
    homepage: str
    license: str
    citation: str
    checked: Checked
    class_names: tuple[str, ...]
    parts: tuple[DatasetPart, ...]
    files: tuple[FileFacts, ...]
    splits: tuple[Split, ...]
    images: int | None = None
    num_classes: int | None = None
    classes: tuple[str, ...] | None = None
    folder: str = ""
    expansion: float = 1.02
    instructions: str = ""
    differences: tuple[str, ...] = ()
    license_source: str = ""

    @property
    def dataset_module(self) -> str:
        """The module of its dataset classes; importing it imports torch."""
        return f"recordzoo.datasets.{self.module}"

    @property
    def recipe_module(self) -> str:
        """The module whose ``RECIPES`` has its recipe, unless a `Layout` says it all; it imports no torch."""
        return f"recordzoo.datasets.{self.module}_recipe"

    @property
    def default_parts(self) -> list[str]:
        """The parts that are prepared when the dataset is prepared by name."""
        return [part.name for part in self.parts if not part.optional]

    @property
    def obtained(self) -> str:
        """How its raw files are had: a key of `OBTAINED`."""
        files = self.default_files
        if not all(file.urls or file.optional for file in files):
            return "by hand"
        if any(file.needs_terms for file in files):
            return "terms"
        return "download" if all(file.urls for file in files) else "partly"

    @property
    def size_bytes(self) -> int | None:
        """The size of these files together, exact or about; None if the size of one is not known."""
        return None if any(file.expected_bytes is None for file in self.default_files) else self.known_bytes

    @property
    def known_bytes(self) -> int:
        """The known sizes of these files together, exact or about."""
        return sum(file.expected_bytes or 0 for file in self.default_files)

    @property
    def is_size_exact(self) -> bool:
        """Whether `size_bytes` is the exact size."""
        return all(file.size_bytes is not None for file in self.default_files)

    @property
    def costs(self) -> Costs:
        """What it takes to prepare it by its name."""
        raw = self.size_bytes
        if raw is None:
            return Costs()
        # A file that several parts are made from is read for each of them.
        read = [
            sum(file.expected_bytes or 0 for file in self.files if part in file.parts) for part in self.default_parts
        ]
        records = sum(int(size * self.expansion) for size in read)
        return Costs(records, raw + records, round(sum(read) / CONVERT_SPEED, 1))

    @property
    def num_images(self) -> int:
        """How many images it has when it is prepared by name."""
        return sum(split.count for split in self.default_splits) if self.images is None else self.images

    @property
    def default_files(self) -> list[FileFacts]:
        """The files that are downloaded when the dataset is prepared by name."""
        return [file for file in self.files if not set(self.default_parts).isdisjoint(file.parts)]

    @property
    def default_splits(self) -> list[Split]:
        """The splits that the dataset has when it is prepared by name; where a name comes twice, the first."""
        splits = {split.name: split for split in reversed(self.splits) if split.part in self.default_parts}
        return [split for split in self.splits if splits.get(split.name) is split]

    def part(self, name: str = "") -> DatasetPart:
        """Look up one part; an ArgumentError names all, if there is no such part."""
        for part in self.parts:
            if part.name == name:
                return part
        labels = [self.label(part.name) for part in self.parts]
        hint = did_you_mean(self.label(name), labels)
        raise ArgumentError(f"{self.name} has no part {name!r}; it has {', '.join(labels)}.{hint}")

    def label(self, part: str = "") -> str:
        """Say what the command line calls a part: "cub200", "imagenet.train", "voc.2012"."""
        return f"{self.name}.{part}" if part else self.name

    def set_name(self, part: str = "") -> str:
        """Say what a part's record set is called on disk, without its ending: "imagenet.train", "voc2012"."""
        return self.part(part).set_name or self.label(part)

    def raw_files(self, part: str = "") -> tuple["RemoteFile", ...]:
        """Give a part's raw files as they are downloaded."""
        from recordzoo.net.download import RemoteFile  # not for `list` and `info`

        self.part(part)
        return tuple(
            RemoteFile(
                name=file.name,
                urls=file.urls,
                size_bytes=file.size_bytes,
                about_bytes=file.about_bytes,
                md5=file.md5,
                sha256=file.sha256,
                unconfirmed=file.unconfirmed,
                needs_terms=file.needs_terms,
                optional=file.optional,
                instructions=self.instructions,
                folder=self.folder,
            )
            for file in self.files
            if part in file.parts
        )
