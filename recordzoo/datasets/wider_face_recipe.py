"""How WIDER FACE becomes records: images, and the lines that the annotation file has for each."""

from collections.abc import Iterator, Mapping, Sequence

from typing_extensions import override

from recordzoo.errors import SourceError
from recordzoo.raw.member import Member
from recordzoo.recipes.declared import Files, ListedRecipe, Lists, class_folder_order
from recordzoo.recipes.recipe import Blob, BlobField, Sidecar, Table, present


class WiderFace(ListedRecipe):
    """The images of a split, there or only listed, by name; the split has the order of its list."""

    @property
    @override
    def lists(self) -> Sequence[str]:
        ending = "filelist" if self.part == "test" else "bbx_gt"
        return [f"wider_face_split/wider_face_{self.part}_{ending}.txt"]

    @property
    @override
    def files(self) -> Mapping[str, Files]:
        return {"image": (f"WIDER_{self.part}/images/", (".jpg",))}

    @property
    @override
    def fields(self) -> Mapping[str, BlobField]:  # type: ignore[override]  # a constant of other recipes
        faces = {} if self.part == "test" else {"annotation": BlobField("bytes")}
        return {**super().fields, **faces}

    @override
    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        for found in super().extract(member):
            if isinstance(found, Sidecar) and self.part != "test":
                faces = _faces_of(found)
                for name, lines in faces.items():
                    yield Blob("annotation", name, lines)
                found = Sidecar(found.name, "\n".join(faces).encode("utf-8", "surrogateescape"))
            yield found

    @override
    def table(self, keys: Mapping[str, Sequence[str]], lists: Lists) -> Table:
        text = lists[self.lists[0]].decode("utf-8", "surrogateescape")
        listed = [line.rstrip() for line in text.splitlines() if line.strip()]
        names = list({*keys["image"], *listed})
        names = [names[place] for place in class_folder_order(names)]
        found = {field: present(names, stored) for field, stored in keys.items()}
        return Table(names=names, keys=found, splits={self.part: listed})


def _faces_of(annotations: Sidecar) -> dict[str, bytes]:
    """Cut an annotation file into what it has for each image: a line with a count, and as many lines of numbers.

    An image without a face has a line, too.
    """
    lines = annotations.data.rstrip().splitlines(keepends=True)
    found: dict[str, bytes] = {}
    start = 0
    while start < len(lines):
        name = lines[start].rstrip().decode("utf-8", "surrogateescape")
        try:
            stop = start + 2 + max(1, int(lines[start + 1]))
        except (ValueError, IndexError):
            stop = len(lines) + 1
        if stop > len(lines) or name in found:
            raise SourceError(f"{annotations.name} is damaged: line {start + 1} and those after it are no faces.")
        found[name] = b"".join(lines[start + 1 : stop])
        start = stop
    return found


RECIPES = {"wider_face": WiderFace}
