"""How DIV2K becomes records: images of low resolution, and of high resolution beside each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from typing_extensions import override

from recordzoo.recipes.declared import Files, ListedRecipe, Lists
from recordzoo.recipes.recipe import Table, present

_FOLDER = {"train": "train", "val": "valid"}


class Track(NamedTuple):
    """How images of low resolution were made.

    Attributes:
        folder: Their folder, with "{}" for "train" or "valid".
        ending: The part of their names after the number.
    """

    folder: str
    ending: str


TRACKS: Mapping[str, Track] = {
    **{
        f"{kind}_x{scale}": Track(f"DIV2K_{{}}_LR_{kind}/X{scale}", f"x{scale}.png")
        for kind in ("bicubic", "unknown")
        for scale in (2, 3, 4)
    },
    "bicubic_x8": Track("DIV2K_{}_LR_x8", "x8.png"),
    "mild_x4": Track("DIV2K_{}_LR_mild", "x4m.png"),
    "difficult_x4": Track("DIV2K_{}_LR_difficult", "x4d.png"),
}


def part_of(split: str, track: str) -> str:
    """Return the part of the catalogue that has a split of a track."""
    return f"{split}-{track.replace('_', '-')}"


def folders_of(split: str, track: str) -> tuple[str, str]:
    """Return the folders of the images of low and of high resolution."""
    return TRACKS[track].folder.format(_FOLDER[split]), f"DIV2K_{_FOLDER[split]}_HR"


class DIV2K(ListedRecipe):
    """The images of low resolution of one split and track, sorted; those of high resolution have their numbers."""

    lists = ()
    needs_lists = False

    @property
    def _place(self) -> tuple[str, str]:
        split, _, track = self.part.partition("-")
        return split, track.replace("-", "_")

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        low, high = folders_of(*self._place)
        return {"image": (f"{low}/", (TRACKS[self._place[1]].ending,)), "high": (f"{high}/", (".png",))}

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        split, track = self._place
        names = sorted(keys["image"])
        high = [f"{name.removesuffix(TRACKS[track].ending)}.png" for name in names]
        return Table(names, keys={"high": present(high, keys["high"])}, splits={split: names}, default_target="high")


RECIPES = {"div2k": DIV2K}
