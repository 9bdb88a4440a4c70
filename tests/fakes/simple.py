"""The simplest dataset there can be: seeded values in every raw form, a file with labels, a recipe without torch."""

import functools
import gzip
import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo.errors import SourceError
from recordzoo.net.url import RemoteFile
from recordzoo.raw.archive import ArchiveSource, NestedTarSource
from recordzoo.raw.member import Member, Source
from recordzoo.raw.tree import TreeSource
from recordzoo.recipes.declared import IMAGE_ENDINGS
from recordzoo.recipes.recipe import Blob, Recipe, Sidecar, Stored, Table
from recordzoo.records.manifest import BlobSpec
from tests.fakes.archives import tar
from tests.fakes.pictures import encoded, picture

FORMS = {"stream": "simple.tgz", "nested": "simple.tar", "tree": "simple"}
"""What the raw data is called in each form: a packed archive (read front to back), a tar of tars, a directory."""

LABELS = "labels/labels.txt"


@dataclass(frozen=True)
class SimpleRecipe(Recipe):
    """Images `<class>/<number>.jpg` or `.png`, captions `<class>/<number>.txt` of some of them, labels in a file."""

    form: str
    raw_files: tuple[RemoteFile, ...] = ()

    dataset = "simple"
    part = ""
    fields = {"image": BlobSpec("image"), "caption": BlobSpec("bytes")}  # noqa: RUF012 - as `Recipe` declares it

    def find(self, root: Path) -> Source | None:
        path = root / FORMS[self.form]
        kinds = {"stream": ArchiveSource, "nested": NestedTarSource, "tree": TreeSource}
        return kinds[self.form](path) if path.exists() else None

    def looked_for(self, root: Path) -> list[str]:
        return [FORMS[self.form]]

    def extract(self, member: Member) -> Iterator[Blob | Sidecar]:
        if member.name == LABELS:
            yield Sidecar("labels", member.read())
        elif member.name.endswith(".txt"):
            yield Blob("caption", member.name, member.read())
        else:
            yield Blob("image", member.name, member.read(), checked=member.name.endswith(IMAGE_ENDINGS))

    def build_table(self, stored: Stored, sidecars: Mapping[str, bytes]) -> Table:
        if "labels" not in sidecars:
            raise SourceError(f"{LABELS} is not in the raw data.")
        labels = dict(line.rsplit(" ", 1) for line in sidecars["labels"].decode().splitlines())
        captions = {key.rpartition(".")[0]: key for key in stored.keys["caption"]}
        names = sorted(stored.keys["image"])
        return Table(
            names,
            {"caption": [captions.get(name.rpartition(".")[0]) for name in names]},
            {"target": np.array([int(labels[name]) for name in names], np.int64)},
            {"even": np.arange(0, len(names), 2), "odd": np.arange(1, len(names), 2)},
            sorted({name.partition("/")[0] for name in names}),
        )


@functools.cache
def values(num_classes: int = 4, per_class: int = 10, mean_bytes: int = 9_000, seed: int = 1) -> dict[str, bytes]:
    """Make the raw files by name; images are real pictures, most of them with more bytes behind their end."""
    rng = random.Random(seed)
    picked = picture(np.random.default_rng(seed), 24, 16)
    heads = {".jpg": encoded(picked, "JPEG"), ".png": encoded(picked, "PNG")}
    files = {}
    for label in range(num_classes):
        for number in range(per_class):
            ending = ".png" if number % 4 == 3 else ".jpg"
            tail = rng.randbytes(rng.randrange(2 * mean_bytes)) if number % 5 else b""
            files[f"c{label:03d}/{number:04d}{ending}"] = heads[ending] + tail
            if number % 3 == 0:
                files[f"c{label:03d}/{number:04d}.txt"] = b"caption %d" % number * rng.randrange(20)
    names = [name for name in files if not name.endswith(".txt")]
    files[LABELS] = "".join(f"{name} {int(name[1:4])}\n" for name in names).encode()
    return files


def alike(size_bytes: int, count: int) -> dict[str, bytes]:
    """Make raw files that all have one size; no decoder takes them."""
    files = {f"c000/{number:05d}.jpg": bytes(size_bytes) for number in range(count)}
    return {**files, LABELS: "".join(f"{name} 0\n" for name in files).encode()}


def write(root: Path, form: str, files: Mapping[str, bytes] | None = None) -> Path:
    """Write the raw data in one form, under `root`."""
    files = values() if files is None else files
    path = root / FORMS[form]
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "stream":
        path.write_bytes(gzip.compress(tar(files), 1, mtime=0))
    elif form == "nested":
        inner: dict[str, dict[str, bytes]] = {}
        for name, data in files.items():
            folder, _, rest = name.partition("/")
            inner.setdefault(folder, {})[rest] = data
        path.write_bytes(tar({f"{name}.tar": tar(content) for name, content in inner.items()}))
    else:
        for name, data in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
    return path


# Any: fields of a `RemoteFile` that shall be wrong.
def remote(path: Path, url: str = "", **wrong: Any) -> RemoteFile:
    """Tell where an archive can be had, with its true size and hash."""
    facts = {
        "urls": (f"{url}/{path.name}",),
        "size_bytes": path.stat().st_size,
        "md5": hashlib.md5(path.read_bytes()).hexdigest(),
    }
    return RemoteFile(path.name, **{**facts, **wrong})


# Any: pytest is not imported by the tests' processes.
def before_members(monkeypatch: Any, happens: Callable[[Member], object]) -> None:
    """Let something happen each time before a `SimpleRecipe` extracts a member."""
    original = SimpleRecipe.extract

    def extract(self: SimpleRecipe, member: Member) -> Iterator[Blob | Sidecar]:
        happens(member)
        yield from original(self, member)

    monkeypatch.setattr(SimpleRecipe, "extract", extract)
