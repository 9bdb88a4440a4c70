"""How CLEVR becomes records: a folder of images for each split, and for two of them a JSON file of scenes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import ListedRecipe, Lists, name_key
from recordzoo.recipes.recipe import NO_TARGET, Blob, Sidecar, Table

SCENES = {split: f"CLEVR_v1.0/scenes/CLEVR_{split}_scenes.json" for split in ("train", "val")}


class CLEVR(ListedRecipe):
    """A label is the number of objects. Images of "test" have no label: the archive lacks their scenes."""

    lists = tuple(SCENES.values())
    needs_lists = False  # of "test" alone there are none
    files = {"image": ("CLEVR_v1.0/images/", (".png",))}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if member.name in self.lists:
            yield Sidecar(member.name, count_objects(member))
        else:
            yield from super().extract(member)

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        names = sorted((key for key in keys["image"] if key.count("/") == 1), key=name_key)
        counts = {split: json.loads(lists[scenes]) for split, scenes in SCENES.items() if scenes in lists}
        splits: dict[str, list[str]] = {split: [] for split in (*counts, "test")}
        target = np.full(len(names), NO_TARGET, np.int64)
        for position, name in enumerate(names):
            split, _, file = name.partition("/")
            if split in splits:
                splits[split].append(name)
            if split in counts and file not in counts[split]:
                raise SourceError(f"{self.dataset}: {SCENES[split]} has no scene for {file}.")
            if split in counts:
                target[position] = counts[split][file]
        present = {split: listed for split, listed in splits.items() if listed}
        return Table(names=names, arrays={"target": target}, splits=present)


def count_objects(member: Member) -> bytes:
    """Return the number of objects of each image as JSON, which is far smaller than the file of scenes.

    Raises:
        SourceError: The file does not contain scenes.
    """
    try:
        counts = json.loads(member.read(), object_hook=_shortened)
        if not isinstance(counts, dict):
            raise ValueError("it has no scenes")
    except (ValueError, LookupError, TypeError) as err:
        raise SourceError(f"{member.name} is not a file of CLEVR's scenes: {err}") from err
    return json.dumps(counts).encode()


# Any: what JSON holds. The innermost objects come first.
def _shortened(node: dict[str, Any]) -> Any:
    if "scenes" in node:
        return dict(node["scenes"])
    return (node["image_filename"], len(node["objects"])) if "objects" in node else None


RECIPES = {"clevr": CLEVR}
