"""`OxfordIIITPetRecord`: torchvision's OxfordIIITPet from records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from torchvision.datasets import OxfordIIITPet

from recordzoo.families.base import Pair, Root, Transform, check_choice, derived
from recordzoo.families.files import PathsDataset
from recordzoo.families.selection import Selection, list_targets
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.recipe import open_image

PetTarget = Literal["category", "binary-category", "segmentation"]


class OxfordIIITPetRecord(PathsDataset, OxfordIIITPet):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `OxfordIIITPet`, read from records.

    Args:
        target_types: One of, or several of, "category" (37 breeds), "binary-category" (cat or dog) and
            "segmentation" (a trimap as a PIL image).
    """

    _ENTRY = "oxford_pets"
    _ITEMS = "_images"
    _PATH = Path
    _transforms_pairs = True
    _target_types: list[str]

    def __init__(
        self,
        root: Root,
        split: Literal["trainval", "test"] = "trainval",
        target_types: Sequence[PetTarget] | PetTarget = "category",
        transforms: Transform = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._split = check_choice(split, "split", ("trainval", "test"))
        types = [target_types] if isinstance(target_types, str) else target_types
        self._target_types = [check_choice(kind, "target_types", self._VALID_TARGET_TYPES) for kind in types]
        self._start(root, transforms=transforms, transform=transform, target_transform=target_transform)
        self._base_folder = Path(self.root) / "oxford-iiit-pet"
        self._images_folder, self._anns_folder = self._base_folder / "images", self._base_folder / "annotations"
        self._segs_folder = self._anns_folder / "trimaps"
        reader = self._open_part(download=download, options=options)
        files = self._recipe_files(image="_images", mask="_segs")
        self._show_paths(Selection(reader, split, listed_in=f"annotations/{split}.txt"), files)
        self.bin_classes = ["Cat", "Dog"]
        self.bin_class_to_idx = {"Cat": 0, "Dog": 1}

    def _in_pixels(self) -> Sequence[str]:
        return ["target_types 'segmentation'"] if "segmentation" in self._target_types else []

    @derived
    def _images(self) -> list[Path]:
        return self._paths("image")

    @derived
    def _segs(self) -> list[Path]:
        return self._paths("mask")

    @derived
    def _labels(self) -> list[int]:
        return list_targets(self._selection)

    @derived
    def _bin_labels(self) -> list[int]:
        species: list[int] = self._selection.array("species").tolist()
        return species

    @derived
    def classes(self) -> list[str]:
        """The names of the split's breeds, in the order of their labels."""
        stems = (name.rpartition("_")[0] for name in self._selection.names())
        label_of = dict(zip(stems, list_targets(self._selection), strict=True))
        return [" ".join(map(str.title, stem.split("_"))) for stem in sorted(label_of, key=lambda s: label_of[s])]

    # Any: a label or an image; or a tuple of them, or None.
    def __getitem__(self, idx: int) -> Pair:
        """Return (RGB PIL image, target): one target, a tuple of several, or None."""
        image: Any = self._image(idx)
        targets = [self._target(kind, idx) for kind in self._target_types]
        target: Any = tuple(targets) if len(targets) > 1 else targets[0] if targets else None
        return self._transformed(image, target)

    # Any: as above.
    def _target(self, kind: str, idx: int) -> Any:
        if kind == "segmentation":
            return self._loaded("mask", idx, open_image)
        attribute, field = ("_labels", "target") if kind == "category" else ("_bin_labels", "species")
        number = self._as_opened(attribute, idx)
        if number is None:
            return getattr(self, attribute)[idx]
        return int(self._selection.reader.array(field)[self._selection.position(number)])

    def _read_fields(self) -> Sequence[str]:
        return ["image", "mask"] if "segmentation" in self._target_types else ["image"]
