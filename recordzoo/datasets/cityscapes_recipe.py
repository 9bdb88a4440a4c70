"""How Cityscapes becomes records: left images with their label images and polygons, fine or coarse."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import DeclaredRecipe, files_under, name_key
from recordzoo.recipes.recipe import INCOMPLETE, Blob, BlobField, Sidecar, Stored, Table, present
from recordzoo.records.kinds import FieldKind, FieldSpec

IMAGES = "leftImg8bit"
IMAGE_ENDING = "_leftImg8bit.png"

SUFFIXES = {
    "instance": "instanceIds.png",
    "semantic": "labelIds.png",
    "color": "color.png",
    "polygon": "polygons.json",
}
"""The suffix of the files of each target type; target types are blob fields."""

SPLITS = {"fine": ("train", "val", "test"), "coarse": ("train", "val"), "extra": ("train_extra",)}
"""The folders of each part's splits."""


def split_name(folder: str) -> str:
    """Name the split of a folder: names of splits have no "_"."""
    return folder.replace("_", "-")


class Cityscapes(DeclaredRecipe):
    """The images of a part's splits, sorted by name, with their existing targets."""

    fields = {
        "image": BlobField("image"),
        **{kind: BlobField("bytes" if kind == "polygon" else "image") for kind in SUFFIXES},
    }

    @property
    def targets(self) -> str:
        """The folder of the targets."""
        return "gtFine" if self.part == "fine" else "gtCoarse"

    @property
    def _files(self) -> Mapping[str, tuple[str, str]]:
        """For each field, the folder and the suffix of its files."""
        ends = {kind: (self.targets, f"_{self.targets}_{suffix}") for kind, suffix in SUFFIXES.items()}
        return {"image": (IMAGES, IMAGE_ENDING), **ends}

    @property
    @override
    def tree_marks(self) -> Sequence[str]:
        splits = "|".join(SPLITS[self.part])
        return [f"{folder}/{splits}/" for folder in (IMAGES, self.targets)]

    @override
    def tree_names(self, base: Path) -> Sequence[str] | None:
        tops = (IMAGES, self.targets)
        splits = [split for split in SPLITS[self.part] if all((base / top / split).is_dir() for top in tops)]
        if not splits:
            return None
        files = self._files.values()
        found = [files_under(base, f"{top}/{split}", (end.lower(),)) for split in splits for top, end in files]
        return [name for names in found for name in names]

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        top, _, name = member.name.partition("/")
        if name.count("/") != 2 or name.partition("/")[0] not in SPLITS[self.part]:
            return
        for field, (folder, ending) in self._files.items():
            if folder == top and name.endswith(ending):
                yield Blob(field, name.removesuffix(ending), member.read())

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        stems = sorted(stored.keys["image"], key=name_key)
        if not stems:
            raise SourceError(f"Cityscapes: there is no image under {IMAGES}/ in the raw data. {INCOMPLETE}")
        folders = np.array([stem.partition("/")[0] for stem in stems])
        return Table(
            names=[stem + IMAGE_ENDING for stem in stems],
            keys={field: present(stems, stored.keys[field]) for field in self.fields},
            splits={
                split_name(split): np.flatnonzero(folders == split) for split in SPLITS[self.part] if split in folders
            },
            fields={kind: FieldSpec(FieldKind.MASKS) for kind in SUFFIXES if kind != "polygon"},
            default_target="instance",
        )


RECIPES = {"cityscapes": Cityscapes}
