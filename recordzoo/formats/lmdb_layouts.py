"""The layouts of LMDB databases of earlier tools: the kind of values, and which keys are samples, in which order.

* folder2lmdb: keys "0", "1", ..., `__keys__` and `__len__`. Tensorpack's LMDBSerializer writes keys of eight digits and
  no `__len__`. Databases of arrays and objects have the same keys.
* Caffe's `convert_imageset`: keys `%08d_<file>`, so that LMDB's order is that of its list.
* TorchRecord's `db0`, `db1`, ...: keys are numbers. GeoffreyChen777/TorchRecord torchrecord/writer.py has three
  generations. The released one (0.1.0 and 0.1.1) writes one LMDB file with a named database for each part and pads the
  keys with zeros. Before it, the keys were not padded, and at first each part was a directory.
* Text recognition, bgshih/crnn tool/create_dataset.py and its copies, such as clovaai/deep-text-recognition-benchmark
  create_lmdb_dataset.py: `image-000000001`, `label-000000001`, ..., `num-samples`. The label is a text. Other keys
  (`lexicon-000000001`) are not read.
* Images' files under their names, without labels: LSUN, and BasicSR's `make_lmdb_from_imgs` (XPixelGroup/BasicSR
  basicsr/utils/lmdb_util.py), which writes `meta_info.txt` into the directory: lines such as `0001.png (480,480,3) 1`,
  whose key is `0001`, in the order in which BasicSR counts the images. Copies of folder2lmdb that leave out the label
  (Fangyh09/Image2LMDB) pickle the file, or store it with pyarrow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recordzoo.base.packages import is_installed, need
from recordzoo.errors import SourceError
from recordzoo.formats.base import fault
from recordzoo.formats.lmdb_pages import DATA_FILE, Database, PageEntry
from recordzoo.formats.lmdb_values import (
    INSTRUCTIONS,
    PROTOBUF,
    ForeignValueError,
    Value,
    array_value,
    caffe_value,
    image_value,
    loaded,
    object_value,
    pair_value,
    torchrecord_value,
)

Read = Callable[[int], bytes]
"""Reads the value of the key at a place."""

Order = tuple[Sequence[int], Sequence[int]]
"""The places of the samples among a database's keys; those of their labels, if these have keys of their own."""

KEYS, LENGTH, COUNT = b"__keys__", b"__len__", b"num-samples"
"""Keys of folder2lmdb; the key by which databases of text recognition are known."""

_LIST_NAME = "meta_info.txt"
_SHOWN_BYTES = 32


@dataclass(frozen=True)
class Layout:
    """How one tool stores samples.

    Attributes:
        name: Its name for `--format`.
        expected: A description of its values, for messages.
        parse: Reads a value; raises `ForeignValueError` for another layout.
        order: Finds where each sample is among a database's keys, which are in LMDB's order, in the order in which the
            tool counts them; raises `ForeignValueError` if the keys are not those of this layout. It gets a function
            that reads the value of a key by its place, and the database's file, beside which some tools write a list.
    """

    name: str
    expected: str
    parse: Callable[[bytes], Value]
    order: Callable[[Sequence[bytes], Read, Path], Order]


def _in_place(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    return range(len(keys)), ()


def _by_number(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    found = _numbered(keys)
    if found is None:
        raise ForeignValueError('its keys are not "0", "1", "2", ...')
    return found, ()


def _numbered(keys: Sequence[bytes]) -> Sequence[int] | None:
    """Sort keys as integers ("2" before "10"); None if a key is not an integer."""
    if not all(key.isdigit() and len(key) <= 20 for key in keys):
        return None
    return sorted(range(len(keys)), key=lambda place: int(keys[place]))


def _by_keys(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Return the keys in the order of `__keys__`; without it, by number if all keys are numbers, else in LMDB's order.

    `__keys__` and `__len__` must fit the keys of the database.
    """
    places = {key: place for place, key in enumerate(keys)}
    own = {name: places.pop(name) for name in (KEYS, LENGTH) if name in places}
    if KEYS in own:
        try:
            named = loaded(read(own[KEYS]), 8 * len(keys) + INSTRUCTIONS)
        except ForeignValueError as err:
            raise ForeignValueError(f"__keys__ cannot be read: {err}") from err
        if not isinstance(named, list | tuple) or not all(isinstance(key, bytes | str) for key in named):
            raise ForeignValueError("__keys__ is no list of keys")
        longest = max(map(len, places), default=0) + 1  # a forged list may repeat one long key: it is not copied
        short = (key[:longest] for key in named)
        wanted = [key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key for key in short]
        found = _listed(wanted, places, "__keys__")
    else:
        left = list(places.values())
        order = _numbered([keys[place] for place in left])
        found = left if order is None else [left[index] for index in order]
    if LENGTH in own and (length := read(own[LENGTH])) != str(len(found)).encode():
        number = loaded(length)
        if number != len(found):
            raise ForeignValueError(f"__len__ is {str(number)[:20]}, but there are {len(found):,} keys")
    return found, ()


def _by_list(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Return the keys in the order of `meta_info.txt`; without it, of `__keys__` or of the database."""
    listing = file.with_name(_LIST_NAME)
    if file.name != DATA_FILE or not listing.is_file():
        return _by_keys(keys, read, file)
    places = {key: place for place, key in enumerate(keys)}
    with listing.open("rb") as lines:
        names = [line.strip().rsplit(b" ", 2)[0] for line in lines if line.strip()]
    return _listed([name.rpartition(b".")[0] or name for name in names], places, _LIST_NAME), ()


def _listed(wanted: Sequence[bytes], places: Mapping[bytes, int], source: str) -> list[int]:
    """Return the places of the keys in a list, which must hold each key exactly once."""
    missing = [key for key in wanted if key not in places]
    if missing or len(set(wanted)) != len(wanted):
        problem = f"names {missing[0][:80]!r}, which is not there" if missing else "names a key twice"
        raise ForeignValueError(f"{source} {problem}")
    if len(wanted) != len(places):
        raise ForeignValueError(f"{source} names {len(wanted):,} keys, and there are {len(places):,}")
    return [places[key] for key in wanted]


def _by_count(keys: Sequence[bytes], read: Read, file: Path) -> Order:
    """Return the keys of images and labels from 1 to `num-samples`; none may be missing, and no image beyond them."""
    places = {key: place for place, key in enumerate(keys)}
    stored = read(places[COUNT]) if COUNT in places else b"not there"
    if not stored.isdigit() or len(stored) > 20:
        raise ForeignValueError(f"its key num-samples is {stored[:20].decode('latin-1')}")
    number_of_images = sum(key.startswith(b"image-") for key in keys)
    if int(stored) != number_of_images:
        raise ForeignValueError(f"num-samples is {int(stored)}, but there are {number_of_images:,} keys image-...")
    wanted = [[b"%s-%09d" % (kind, number + 1) for number in range(int(stored))] for kind in (b"image", b"label")]
    for key in (*wanted[0], *wanted[1]):
        if key not in places:
            raise ForeignValueError(f"key {key!r} is not there")
    images, labels = ([places[key] for key in each] for each in wanted)
    return images, labels


STORED = Layout("", "any bytes", Value, _in_place)
"""Values that are images and nothing else, in LMDB's order; never detected, only requested."""

_KNOWN = (
    Layout(
        "folder2lmdb",
        "a pair of folder2lmdb (an image's file, a label), pickled, or by msgpack or pyarrow",
        pair_value,
        _by_keys,
    ),
    Layout(
        "torchrecord",
        "TensorProtos of TorchRecord (an image's size and pixels, a label)",
        torchrecord_value,
        _by_number,
    ),
    Layout("caffe", "a Datum of Caffe (channels, height, width, data, label)", caffe_value, _in_place),
    Layout("lmdb_arrays", "a numpy.ndarray, pickled or by pyarrow", array_value, _by_keys),
    Layout("lmdb_objects", "a pickled object with image, size, channels and label", object_value, _by_keys),
    Layout("lmdb_text", "an image's file under image-000000001, and its text under label-000000001", Value, _by_count),
    Layout("lmdb_images", "an image's file", image_value, _by_list),
)
KNOWN = {each.name: each for each in _KNOWN}
"""All layouts by name, in the order in which they are tried."""


def ordered(
    database: Database, entries: Sequence[PageEntry], layout: Layout
) -> tuple[tuple[PageEntry, ...], tuple[PageEntry, ...]]:
    """Return a database's records in their order, without other keys; also the keys of their labels."""

    def read(place: int) -> bytes:
        return database.value(entries[place])

    try:
        places, labels = layout.order([entry.key for entry in entries], read, database.path)
    except ForeignValueError as err:
        raise fault(database.path, f" is no database of {layout.name}: {err}.") from err
    return tuple(entries[place] for place in places), tuple(entries[place] for place in labels)


def recognised(database: Database, entries: Sequence[PageEntry]) -> Layout:
    """Find the layout by the keys, or by the first value."""
    keys = {entry.key for entry in entries}
    if COUNT in keys:
        return KNOWN["lmdb_text"]
    first = next((entry for entry in entries if entry.key not in (KEYS, LENGTH)), entries[0])
    value = database.value(first)
    reasons: dict[str, str] = {}
    untried = {"lmdb_text"} if is_installed(PROTOBUF[0]) else {"lmdb_text", "caffe", "torchrecord"}
    for name, layout in KNOWN.items():
        try:
            if name not in untried:
                layout.parse(value)
                return layout
        except ForeignValueError as err:
            reasons[name] = f"{layout.expected}: {err}"
    if not keys.isdisjoint((KEYS, LENGTH)):
        return KNOWN["folder2lmdb"]
    need(*PROTOBUF)  # without it, a layout was not tried
    raise SourceError(
        f"{database.path} is of no known LMDB layout ({', '.join(KNOWN)}). Read it with the program that wrote it, "
        "and store that dataset with recordzoo.convert.",
        path=str(database.path),
        sample={"key": str(first.key[:100])[2:-1], "begins": value[:_SHOWN_BYTES].hex(" "), "size_bytes": len(value)},
        reasons=reasons,
    )
