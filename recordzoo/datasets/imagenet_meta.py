"""ImageNet's development kit: the synonyms of each WNID, and the WNID of each validation image.

torchvision keeps the same two things in ``meta.bin``; both are read here, and give exactly what torchvision makes of
them (torchvision/datasets/imagenet.py, `parse_devkit_archive` and `load_meta_file`).
"""

import functools
import io
import pickle
import stat
import struct
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordzoo.errors import SourceError
from recordzoo.raw.archive import ArchivedSource, ArchiveSource
from recordzoo.raw.tree import TreeSource

DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"
META_BIN = "meta.bin"
META_MAT = "ILSVRC2012_devkit_t12/data/meta.mat"
GROUND_TRUTH = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"

SIDECARS = (META_BIN, META_MAT, GROUND_TRUTH)


@functools.cache
def all_wnids() -> tuple[str, ...]:
    """Return the 1,000 WNIDs of ImageNet's classes, sorted: the place of each is its label.

    Sources of ``imagenet_wnids.txt``: hendrycks/imagenet-r eval.py and hendrycks/natural-adv-examples
    eval_many_models.py, the same list; HaohanWang/ImageNet-Sketch scripts/sketchPath.txt gives 996 of them the same
    labels, and mixes up two pairs of classes that share a name.
    """
    return tuple(Path(__file__).with_name("imagenet_wnids.txt").read_text(encoding="ascii").split())


@dataclass(frozen=True, slots=True)
class Meta:
    """The contents of the development kit.

    Attributes:
        synonyms: For each of the 1,000 WNIDs its names: ``("tench", "Tinca tinca")``.
        val_wnids: The WNIDs of the validation images, in the order of their sorted names.
    """

    synonyms: Mapping[str, tuple[str, ...]]
    val_wnids: tuple[str, ...]


def meta_source(root: Path) -> ArchivedSource | None:
    """Find ``meta.bin`` or the development kit under `root`, the first as torchvision does."""
    if (root / META_BIN).is_file():
        return TreeSource(root, [META_BIN])
    return ArchiveSource(root / DEVKIT) if (root / DEVKIT).is_file() else None


def read_meta(root: Path) -> Meta | None:
    """Read the file that `meta_source` finds, once per process while it is unchanged; None if there is none.

    Raises:
        SourceError: It is there and broken.
    """
    for name in (META_BIN, DEVKIT):
        try:
            status = (root / name).stat()
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found = _read_once(root.absolute(), name, status.st_mtime_ns, status.st_size)
            if isinstance(found, str):
                raise SourceError(found)
            return found
    return None


@functools.lru_cache(maxsize=4)
def _read_once(root: Path, name: str, mtime_ns: int, size_bytes: int) -> Meta | str | None:
    """Read ``meta.bin`` or the development kit of a certain time; return the problem if it is broken."""
    source = TreeSource(root, [name]) if name == META_BIN else ArchiveSource(root / name)
    try:
        members = (member for unit in source.units(1 << 40) for member in unit.members())
        return parse_meta({member.name: member.read() for member in members if member.name in SIDECARS})
    except SourceError as err:
        return str(err)


def parse_meta(sidecars: Mapping[str, bytes]) -> Meta | None:
    """Read the files of `SIDECARS` that are there; None if there is none.

    Raises:
        SourceError: A file is broken, or the development kit lacks one.
    """
    if META_BIN in sidecars:
        return _parse_meta_bin(sidecars[META_BIN])
    if META_MAT not in sidecars and GROUND_TRUTH not in sidecars:
        return None
    for name in (META_MAT, GROUND_TRUTH):
        if name not in sidecars:
            raise SourceError(f"{DEVKIT} has no {name}: it is not complete, or not ImageNet's.")
    wnid_of, synonyms = _parse_meta_mat(sidecars[META_MAT])
    try:
        val_wnids = tuple(wnid_of[int(number)] for number in sidecars[GROUND_TRUTH].split())
    except (ValueError, KeyError) as err:
        raise SourceError(f"{GROUND_TRUTH} in {DEVKIT} names a class that {META_MAT} does not have: {err}.") from err
    return Meta(synonyms, val_wnids)


def _parse_meta_mat(data: bytes) -> tuple[dict[int, str], dict[str, tuple[str, ...]]]:
    import scipy.io  # 0.2 s, and only for those who have a development kit
    from scipy.io.matlab import MatReadError

    broken = (ValueError, TypeError, KeyError, IndexError, AttributeError, NotImplementedError, OSError, MemoryError)
    try:
        # By place and not by name, as torchvision reads it: ILSVRC2012_ID, WNID, words, gloss, num_children, ...
        # A .mat file of this version holds numbers, texts and structs; loading it runs nothing.
        mat = scipy.io.loadmat(io.BytesIO(data), squeeze_me=True)  # type: ignore[arg-type]  # it takes files too
        synsets = mat["synsets"]
        leaves = [synset for synset in synsets.reshape(-1).tolist() if synset[4] == 0]
        wnid_of = {int(number): str(wnid) for number, wnid, *_ in leaves}
        synonyms = {str(wnid): tuple(str(words).split(", ")) for _, wnid, words, *_ in leaves}
    except (*broken, MatReadError, struct.error, zlib.error) as err:
        raise SourceError(f"{META_MAT} in {DEVKIT} is not ImageNet's list of classes: {err!r}.") from err
    return wnid_of, synonyms


def _parse_meta_bin(data: bytes) -> Meta:
    import torch  # the only place in a recipe: the file is torch's own format, and weights_only runs no code from it

    broken = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, IndexError, TypeError, OSError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's guesses about a file that is not torch's
            loaded: Any = torch.load(io.BytesIO(data), weights_only=True)  # Any: whatever it holds; checked below
        synonyms, val_wnids = loaded
        meta = Meta({wnid: tuple(names) for wnid, names in synonyms.items()}, tuple(val_wnids))
        texts = [*meta.synonyms, *(name for names in meta.synonyms.values() for name in names), *meta.val_wnids]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("it holds something else than texts")
    except (*broken, AttributeError, struct.error) as err:
        raise SourceError(
            f"{META_BIN} is not what torchvision's ImageNet writes ({type(err).__name__}: {str(err)[:200]}). "
            f"Remove it, or make it again with torchvision from {DEVKIT}."
        ) from err
    return meta
