"""How CUB-200-2011 becomes records: the photographs with their annotations, and the masks at the same positions.

Every annotation file is optional: one that is absent leaves its array out, and with it the target that needs it. One
that is there must be whole, because a silent zero would be a wrong label.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from typing_extensions import override

from recordzoo.base.text import JSON
from recordzoo.datasets import cub200_annotations as annotations
from recordzoo.errors import SourceError
from recordzoo.net.download import RemoteFile
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import (
    IMAGE_ENDINGS,
    ListedRecipe,
    Lists,
    class_folder_order,
    class_labels,
    is_class_image,
)
from recordzoo.recipes.recipe import INCOMPLETE, Blob, Sidecar, Stored, Table
from recordzoo.records.kinds import FieldKind, FieldSpec

FOLDER = "CUB_200_2011"
IMAGES = f"{FOLDER}/images/"
MASKS = "segmentations/"


class CUB200(ListedRecipe):
    """The images with their boxes, parts and attributes, in ImageFolder's order over ``CUB_200_2011/images``."""

    lists = annotations.FILES
    files = {"image": (IMAGES, IMAGE_ENDINGS)}
    needs_lists = False

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        name = member.name.removeprefix(IMAGES)
        if name == member.name:
            yield from super().extract(member)
        elif is_class_image(name):  # all, as in ImageFolder: no list names them
            yield Blob("image", name, member.read())

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        if not keys["image"]:
            raise SourceError(f"CUB-200-2011: there is no image under {IMAGES} in the raw data. {INCOMPLETE}")
        names = [keys["image"][place] for place in class_folder_order(keys["image"])]
        classes, target = class_labels(names)
        parsed = annotations.parse(names, lists.contents)
        return Table(
            names=names,
            arrays={"target": target, **parsed.arrays},
            splits=parsed.splits,
            classes=classes,
            fields=parsed.fields,
            metadata=parsed.metadata,
        )


class CUB200Segmentations(ListedRecipe):
    """The masks, at the positions of the images; an image without a mask has none here either.

    Attributes:
        images: The names of the images' record set, whose positions the masks follow. None: there must be a mask for
            every image, and the positions are the same then.
    """

    lists = ()
    files = {"mask": (MASKS, (".png",))}
    needs_lists = False
    images: tuple[str, ...] | None = None

    @override
    def __init__(self, dataset: str, part: str = "", raw_files: tuple[RemoteFile, ...] | None = None) -> None:
        super().__init__(dataset, part, raw_files)
        self.expansion = 1.5  # masks of 3.3 KB on average take a page or two each

    @property
    @override
    def options(self) -> Mapping[str, JSON]:
        return {} if self.images is None else {"images": names_digest(self.images)}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        raise NotImplementedError  # `build_table` also needs the masks that were skipped

    @override
    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        keys = stored.keys["mask"]
        names = self.images
        if names is None:
            names = tuple(f"{_stem(keys[place])}.jpg" for place in class_folder_order(keys))
        mask_of = {_stem(key): key for key in keys if key not in stored.skipped.get("mask", ())}
        masks = [mask_of.get(_stem(name)) for name in names]
        if not any(masks):
            raise SourceError(
                f"CUB-200-2011: none of the {len(keys)} masks under {MASKS} belongs to any of the {len(names)} images; "
                f"a mask is named {MASKS}<class>/<image's name>.png."
            )
        return Table(
            names=names,
            keys={"mask": masks},
            fields={"mask": FieldSpec(FieldKind.MASKS)},
            default_target="mask",
            metadata={"images": names_digest(names)},
        )


def _recipe(dataset: str, part: str = "", raw_files: tuple[RemoteFile, ...] | None = None) -> ListedRecipe:
    return (CUB200Segmentations if part == "segmentations" else CUB200)(dataset, part, raw_files)


RECIPES = {"cub200": _recipe}


def names_digest(names: Sequence[str]) -> str:
    """Digest the names of the images' record set, which the masks' record set keeps to tell whose positions it has."""
    text = "\n".join(names).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()


def _stem(name: str) -> str:
    return name.rpartition(".")[0]
