"""Recipe for images with COCO JSON, YOLO labels or masks: one set `<directory>.records` with its splits."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.base.program import command
from recordzoo.base.text import name_first
from recordzoo.base.types import JSON
from recordzoo.net.download import RemoteFile
from recordzoo.raw.listing import ListSource, Note, look
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.annotations import Annotations
from recordzoo.recipes.annotations_coco import COCO, coco_files, read_coco
from recordzoo.recipes.annotations_pairs import MASKS, has_masks, read_masks
from recordzoo.recipes.annotations_yolo import YOLO, has_labels, read_yolo
from recordzoo.recipes.base import Blob, BlobField, Recipe, Stored, Table
from recordzoo.recipes.folder import records_beside
from recordzoo.records.kinds import FieldKind, FieldSpec, SetKind
from recordzoo.records.made_from import TREE_FILE
from recordzoo.records.manifest import Manifest

FORMATS: dict[str, tuple[Callable[[Path], object], Callable[[Path], Annotations]]] = {
    COCO: (coco_files, read_coco),
    YOLO: (has_labels, read_yolo),
    MASKS: (has_masks, read_masks),
}
"""Format -> (detector, reader); the first format that fits is used."""

_NOTE = "\0"  # in the name of a member that is not a file: <field> NUL <position>
_NUM_SHOWN = 20
_ANNOTATION_ENDINGS = (".json", ".txt", ".yaml", ".yml")


def format_of(root: Path) -> str | None:
    """Return the format of a directory's annotations; None if no known format fits."""
    return next((name for name, (is_there, _) in FORMATS.items() if is_there(root)), None)


# Any: arguments of `AnnotatedFolder`.
def recipe(**settings: Any) -> "AnnotatedFolder":
    """Return the recipe of a directory of images with annotations."""
    return AnnotatedFolder(**settings)


class _FolderSource(ListSource):
    @property
    @override
    def description(self) -> str:
        return str(self.path.parent)


class AnnotatedFolder(Recipe):
    """The images of a directory with their annotations. `find` keeps its result; pickled copies do not.

    Args:
        format: "coco", "yolo" or "masks".
        skips_missing: Skip missing images.
    """

    kind = dataset = SetKind.ANNOTATED
    part = ""
    origin = "tree"
    raw_files: tuple[RemoteFile, ...] = ()

    def __init__(self, format: str, skips_missing: bool = False) -> None:
        self.format, self._skips_missing = format, skips_missing
        self._found: Annotations | None = None  # without skipped images
        self._all: Annotations | None = None
        self._stamp = ""
        self._has_texts = False
        self._missing: dict[str, str] = {}
        self._root = Path()

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes get their part with their unit.
        return {**self.__dict__, "_found": None, "_all": None, "_missing": {}}

    @property
    @override
    def fields(self) -> Mapping[str, BlobField]:  # type: ignore[override]  # a constant of other recipes
        if self.format == MASKS:
            return {"image": BlobField("image"), "mask": BlobField("image")}
        found = {
            "image": BlobField("image"),
            "boxes": BlobField("raw", dtype="<f4"),
            "labels": BlobField("raw", dtype="<i8"),
        }
        return {**found, "annotations": BlobField("json")} if self._has_texts else found

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {"annotations": self.format}

    @override
    def is_of(self, manifest: Manifest, root: Path) -> bool:
        return super().is_of(manifest, root) and manifest.metadata.get("annotations") == self.format

    def target(self, root: Path) -> Path:
        """See `Recipe`: beside the directory."""
        return records_beside(root)

    @override
    def title(self, root: Path) -> str:
        return root.resolve().name

    @override
    def command(self, root: Path) -> str:
        return command("prepare", root, "--from", self.format)

    @override
    def looked_for(self, root: Path) -> list[str]:
        return [f"{self.format} annotations"]

    def find(self, root: Path) -> Source | None:
        """Read the annotations.

        Raises:
            PrepareError: PyYAML, which reads data.yaml, is not installed.
            SourceError: Files contradict each other, or are damaged; the message names them.
        """
        self._root = root.resolve()
        found = self._found = self._without_missing(self._read())
        self._has_texts = bool(found.texts)
        names = [
            name
            for image, *mask in zip(found.images, *filter(None, [found.masks]), strict=True)
            for name in (image, *mask)
        ]
        return _FolderSource(self._root / "annotations", [*names, *found.files], self._notes(found))

    def _read(self) -> Annotations:
        """Read the annotations; COCO's large files only if they were changed."""
        stamp = TreeSource(self._root, coco_files(self._root)).fingerprint() if self.format == COCO else ""
        if self._all is None or not stamp or stamp != self._stamp:
            self._all = None  # frees memory before the next read
            self._all, self._stamp = FORMATS[self.format][1](self._root), stamp
        return self._all

    def _without_missing(self, found: Annotations) -> Annotations:
        if not self._skips_missing:
            return found
        looked = {name: look(os.path.join(self._root, name)) for name in found.images}
        self._missing = {name: why for name, why in looked.items() if isinstance(why, str)}
        if not self._missing or len(self._missing) == len(looked):  # if all files are missing, the source reports it
            return found
        return found.kept(np.array([name not in self._missing for name in found.images]))

    @staticmethod
    def _notes(found: Annotations) -> dict[str, Sequence[Note]]:
        """Return the notes to store with each image, by the image's name."""
        notes: dict[str, Sequence[Note]] = {}
        for position, name in enumerate(found.images):
            values = {field: each[position].tobytes() for field, each in found.arrays().items()}
            if found.texts:
                values["annotations"] = found.texts[position]
            notes[name] = [(f"{field}{_NOTE}{position}", data) for field, data in values.items()]
        return notes

    def choice(self) -> str:
        """Describe the result of `find` and the skipped images; "" before `find`."""
        if self._found is None:
            return ""
        left_out = name_first([f"{name} ({why})" for name, why in self._missing.items()], _NUM_SHOWN)
        return self._found.shown + (f"; left out: {left_out}" if self._missing else "")

    def extras(self) -> Mapping[str, bytes]:
        """Return `TREE_FILE`, except for COCO, which need not list all images of a folder."""
        if self._found is None or self.format == COCO:
            return {}
        names = [*self._found.images, *(name for name in self._found.files if "/" in name)]
        folders = {parent.as_posix() for name in names for parent in PurePosixPath(name).parents} - {"."}
        times = {folder: os.stat(self._root / folder).st_mtime_ns for folder in sorted(folders)}
        return {TREE_FILE: json.dumps({"root": os.fspath(self._root), "directories": times}, indent=1).encode()}

    @override
    def extract(self, member: Member) -> Iterator[Blob]:
        field, is_note, position = member.name.partition(_NOTE)
        if is_note:
            yield Blob(field, position, member.read())
        elif not member.name.lower().endswith(_ANNOTATION_ENDINGS):
            is_mask = self.format == MASKS and MASKS in member.name.split("/")
            yield Blob("mask" if is_mask else "image", member.name, member.read())

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        """See `Recipe`."""
        found = self._found
        assert found is not None
        positions = [str(position) for position in range(len(found.images))]
        keys: dict[str, Sequence[str]] = dict.fromkeys(self.fields, positions)
        keys |= {"image": found.images, "mask": found.masks} if found.masks else {"image": found.images}
        specs = {
            "boxes": FieldSpec(FieldKind.BOXES, None, found.box_format, found.is_normalized),
            "labels": FieldSpec(FieldKind.CLASS, found.classes),
            "annotations": FieldSpec(FieldKind.JSON, is_normalized=found.is_normalized),
            "mask": FieldSpec(FieldKind.MASKS),
            "image_id": FieldSpec(FieldKind.INT),
        }
        arrays = {} if found.image_ids is None else {"image_id": found.image_ids}
        shapes = {
            name: np.array([value.shape for value in values], np.uint32) for name, values in found.arrays().items()
        }
        return Table(
            names=found.images,
            keys=keys,
            arrays=arrays,
            splits=found.splits,
            fields={name: spec for name, spec in specs.items() if name in self.fields or name in arrays},
            default_target="mask" if found.masks else "labels",
            metadata={"annotations": self.format, **found.metadata},
            shapes=shapes,
            skipped=self._missing,
        )
