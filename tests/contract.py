"""The contract: a `Record` class behaves as the torchvision class whose place it takes. One table, one row a dataset.

A row says how raw files are made and which classes to compare; `tests/test_contract.py` does the comparing. To add a
dataset, add a row.
"""

import dataclasses
import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision.datasets as tv
from PIL import Image
from pycocotools.coco import COCO
from torchvision.datasets.vision import StandardTransform

import recordzoo
from tests.fakes import folder
from tests.fakes.catalogued import catalogued
from tests.fakes.fake import Case, Fake
from tests.fakes.mutations import SAMPLES


@dataclass(frozen=True)
class Pair:
    """Both classes with raw data for each."""

    theirs: type
    ours: type
    their_root: Path
    our_root: Path

    def both(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Construct both, with those of the keyword arguments that torchvision's class has.

        Some have no `target_transform`. Those that have only `transforms` get the other two by it.
        """
        known = inspect.signature(self.theirs.__init__).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
            if "transforms" in known and "transform" in kwargs and "transform" not in known:
                kwargs["transforms"] = StandardTransform(kwargs["transform"], kwargs.get("target_transform"))
            kwargs = {name: value for name, value in kwargs.items() if name in known}
        return self.theirs(self.their_root, *args, **kwargs), self.ours(self.our_root, *args, **kwargs)


@dataclass(frozen=True)
class Difference:
    """Errors whose words differ on purpose: patterns of both texts, and why; perhaps also their classes."""

    theirs: str
    ours: str
    reason: str
    other_class: bool = False


@dataclass(frozen=True)
class Row:
    """One dataset.

    Attributes:
        build: Writes raw data of a kind below a directory and says what to compare.
        sources: The kinds: "tree", "archive", "gone" (a tree that is removed once it is converted).
        arguments: What both constructors get.
        mutations: Changes of attributes, done to both; what the samples are afterwards is compared.
        bad_arguments: What both constructors refuse, in the same words.
        differences: Where the words of errors differ on purpose.
        is_brief: Only samples and attributes are compared: another row tries the rest.
        optional: Arguments that torchvision's class requires and ours does not.
        handles: Attributes that are not compared.
    """

    name: str
    build: Callable[[Path, str], Pair]
    sources: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    mutations: Mapping[str, Callable[[Any], None]] = field(default_factory=dict)
    bad_arguments: tuple[Mapping[str, Any], ...] = ()
    differences: tuple[Difference, ...] = ()
    is_brief: bool = False
    optional: tuple[str, ...] = ()
    handles: tuple[str, ...] = ()


# Any: whatever the classes take.
def build_folder(
    tmp: Path, source: str, theirs: type, ours: type, write: Callable[[Path], Path], **arguments: Any
) -> Pair:
    their_root, our_root = write(tmp / "theirs" / "photos"), write(tmp / "ours" / "photos")
    if source == "gone":
        ours(our_root, **arguments)
        os.rename(our_root, tmp / "elsewhere")
    return Pair(theirs, ours, their_root, our_root)


def read_bytes(path: str) -> bytes:
    """Load what is no image; as DatasetFolder's users do."""
    return Path(path).read_bytes()


def open_grey(path: str) -> Image.Image:
    return Image.open(path).convert("L")


def is_short(path: str) -> bool:
    """Select by the length of the name."""
    return len(os.path.basename(path)) < 6


def _dataset_folder_row(name: str, arguments: Mapping[str, Any], *, is_brief: bool = True) -> Row:
    return Row(
        name,
        functools.partial(build_folder, **THINGS, **arguments),
        ("tree", "gone"),
        arguments,
        mutations={each: change for each, change in SAMPLES.items() if "imgs" not in each},
        bad_arguments=({"is_valid_file": len, "extensions": (".scan",)}, {"is_valid_file": None, "extensions": None}),
        is_brief=is_brief,
    )


NOT_PREPARED = (
    Difference(
        r"^Dataset not found|^The archive \S+ is not present|^\[Errno 2\] No such file",
        r"^[\w.-]+: no records and no raw data in .*looked for",
        "torchvision does not say what it looked for; nor does it know of records, or of the command that makes them",
    ),
)

IMAGES = {"theirs": tv.ImageFolder, "ours": recordzoo.ImageFolderRecord, "write": folder.write_tree}
THINGS = {"theirs": tv.DatasetFolder, "ours": recordzoo.DatasetFolderRecord, "write": folder.write_dataset}
ROWS = (
    Row("ImageFolder", functools.partial(build_folder, **IMAGES), ("tree", "gone"), mutations=SAMPLES),
    _dataset_folder_row(
        "DatasetFolder", {"loader": open_grey, "extensions": (".scan", ".png"), "allow_empty": True}, is_brief=False
    ),
    _dataset_folder_row("DatasetFolder text", {"loader": read_bytes, "extensions": ".txt"}),
    _dataset_folder_row("DatasetFolder function", {"loader": read_bytes, "is_valid_file": is_short}),
)


def _class(name: str, base: type, attributes: Mapping[str, Any]) -> type:
    """Make a class of this module, so that it pickles."""
    made = type(name, (base,), {**attributes, "__module__": __name__})
    globals()[name] = made
    return made


def _build(fake: Fake, theirs: type, ours: type, folder: str, tmp: Path, source: str) -> Pair:
    root = (fake.write_tree if source == "tree" else fake.write_archive)(tmp / "ours")
    return Pair(theirs, ours, fake.write_tree(tmp / "theirs") / folder, root / folder)


def _rows(fake: Fake, case: Case) -> list[Row]:
    """Return the rows of a dataset class: one with all that is tried, and one for each other configuration."""
    name = case.name.removesuffix("Record")
    theirs = _class(name, case.theirs or getattr(tv, name), case.attributes)
    ours = _class(case.name, getattr(recordzoo, case.name), {**case.attributes, "raw_files": fake.remote_files()})
    build = functools.partial(_build, fake, theirs, ours, case.folder)
    first, *others = case.arguments
    row = Row(
        name,
        build,
        tuple(case.sources),
        first,
        case.mutations,
        tuple(case.bad_arguments),
        differences=(*NOT_PREPARED, *(Difference(*each, other_class=True) for each in case.differences)),
        optional=tuple(case.optional),
        handles=tuple(case.handles),
    )
    brief = dataclasses.replace(row, sources=("archive",), is_brief=True)
    return [row, *(dataclasses.replace(brief, name=f"{name} {_short(each)}", arguments=each) for each in others)]


def _short(arguments: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in arguments.items())


DECLARED = [row for fake in catalogued().values() for case in fake.cases for row in _rows(fake, case)]
"""The rows of the fakes of all modules in tests/fakes."""


def plain(value: Any, root: Path) -> Any:
    """Make a value comparable, its types too: images and arrays to tuples, the root to a word."""
    if isinstance(value, Image.Image):
        return ("image", value.mode, value.size, value.tobytes())
    if isinstance(value, torch.Tensor | np.ndarray):
        array = np.asarray(value)
        return (
            "tensor" if isinstance(value, torch.Tensor) else "array",
            str(array.dtype),
            array.shape,
            array.tobytes(),
        )
    if isinstance(value, COCO):
        return ("coco", plain(vars(value), root))
    if isinstance(value, os.PathLike):
        return ("path", plain(os.fspath(value), root))
    if isinstance(value, str):
        return value.replace(os.fspath(root), "<root>")
    if isinstance(value, Mapping):
        return {plain(key, root): plain(item, root) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item, root) for item in value)
    if type(value) is list:
        return [plain(item, root) for item in value]
    # True is not 1, nor is NumPy's 1.
    return value if type(value) in (int, str, type(None)) else (type(value), value)


def outcome(root: Path, action: Callable[[], Any]) -> Any:
    """Return what an action gives, or the error that it raises, comparable.

    The error keeps no frames: a loader in them would be left to the garbage collector, which waits for its workers.
    """
    try:
        return plain(action(), root)
    except Exception as err:  # noqa: BLE001 - any difference is what is looked for
        each: BaseException | None = err
        while each is not None:
            each.__traceback__, each = None, each.__cause__ or each.__context__
        return err


def same_outcome(theirs: Any, ours: Any, differences: Sequence[Difference] = ()) -> bool:
    """Whether ours is the same value, or an error that whoever catches theirs catches too, in the same words.

    Args:
        theirs: What torchvision's class gave.
        ours: What ours gave.
        differences: Where other words are intended.
    """
    if not isinstance(theirs, Exception):
        return bool(theirs == ours)
    if not isinstance(ours, Exception):
        return False
    a, b, same_class = _text(theirs), _text(ours), isinstance(ours, type(theirs))
    return (a == b and same_class) or any(
        re.search(one.theirs, a) and re.search(one.ours, b) and (same_class or one.other_class) for one in differences
    )


def difference(theirs: Any, ours: Any) -> str:
    """Show two values, shortened; of tuples only the first items that differ: a label behind an image is seen."""
    where = ""
    while isinstance(theirs, tuple) and isinstance(ours, tuple) and len(theirs) == len(ours) and theirs != ours:
        index = next(i for i, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b)
        where, theirs, ours = f"{where}[{index}]", theirs[index], ours[index]
    return f"{where}: {repr(theirs)[:300]} / {repr(ours)[:300]}"


def _text(err: Exception) -> str:
    return re.sub(r"/[^\s']*/(theirs|ours)\b", "<root>", str(err))


def all_samples(ds: Any, root: Path) -> list[Any]:
    return [outcome(root, functools.partial(ds.__getitem__, i)) for i in range(len(ds))]
