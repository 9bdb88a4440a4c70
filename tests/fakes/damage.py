"""Damaged and hostile record sets by the hundred, each opened and read in a process that may die of it.

``python -m tests.fakes.damage GROUP GOOD WORK full|quick FIRST STEP`` makes every STEP-th case of a group from a good
set, reads all of it, verifies it, and prints a line before each case and one after it. So a death names its case.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from recordzoo import errors as project
from recordzoo.base.files import hash_text
from recordzoo.errors import ManifestError, RecordError
from recordzoo.records.arrays import INDEX_DTYPE
from recordzoo.records.manifest import MANIFEST_NAME
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import read_meta
from recordzoo.records.verify import verify
from tests.fakes.records import edit_manifest, flip, signed, some_values, write_records

PAGE = os.sysconf("SC_PAGE_SIZE")
_ADDRESS_SPACE_BYTES = 3 << 30  # a stream's buffer is reserved whole for a member that says it has 1 GiB
_CASE_S = 60.0  # a case that takes longer dies of SIGALRM


@dataclass
class Case:
    """A way to damage the set in a folder.

    Attributes:
        right: What must be right if it can be read: "all", "values" (all but the manifest), or "nothing": its author
            decided what it holds, and only must not be able to harm.
        found: `verify(full=True)` must find it.
    """

    name: str
    damage: Callable[[Path], Any]
    right: str = "all"
    found: bool = True


def good_set(folder: Path) -> Path:
    """Write the set that is damaged: inline values, large ones, several shards, splits, classes, absent values.

    Another set is beside it.
    """
    write_records(folder.with_name("other.records"), some_values(240, seed=5), per_shard=90)
    values: list[bytes | None] = [*some_values(240, sizes=(30, 90, 700, 4000, 9000)), None, b""]
    return write_records(
        folder,
        values,
        per_shard=90,
        splits={"train": np.arange(0, 242, 2), "test": np.arange(1, 242, 2)},
        classes=["cat", "dog", "häh"],
        metadata={"a": [1, 2]},
    )


# The damage: everything gets a file of its own first, because the folder holds hard links to the good set's.


def put(name: str, data: bytes) -> Callable[[Path], Any]:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).write_bytes(data)

    return damage


def own(path: Path) -> Path:
    put(path.name, path.read_bytes())(path.parent)
    return path


def resized(name: str, size: int) -> Callable[[Path], Any]:
    return lambda folder: os.truncate(own(folder / name), size)


def flipped(name: str, bit: int) -> Callable[[Path], Any]:
    return lambda folder: flip(own(folder / name), bit)


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], Any]:
    def damage(folder: Path) -> None:
        own(folder / MANIFEST_NAME)
        edit_manifest(folder, change)

    return damage


def consistent(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], Any]:
    """Change a file and let the manifest tell its new size and hashes."""

    def damage(folder: Path) -> None:
        data = change((folder / name).read_bytes())
        put(name, data)(folder)

        def tell(document: dict[str, Any]) -> None:
            told: dict[str, Any] = {"bytes": len(data), "hash": hash_text(hashlib.sha256(data))}
            if name.endswith(".npy"):
                document["arrays"][name.removesuffix(".npy")].update(told, crc32=zlib.crc32(data))
            else:
                next(shard for shard in document["shards"] if shard["name"] == name).update(told)

        edited(tell)(folder)

    return damage


def replaced(name: str, make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def damage(folder: Path) -> None:
        (folder / name).rename(folder.parent / "elsewhere")
        make(folder / name)

    return damage


# The groups of cases.


def cuts(good: Path) -> Iterator[Case]:
    for name in sorted(path.name for path in good.iterdir()):
        size = (good / name).stat().st_size
        for cut in {*range(0, size, PAGE), *range(max(0, size - 40), size), size // 2, 1, 100}:
            if name.endswith(".lmdb") or cut > size - 40 or cut < 200:
                yield Case(f"{name} cut to {cut} of {size}", resized(name, cut))
        for more in (1, PAGE, 1 << 33):
            yield Case(f"{name} extended by {more}", resized(name, size + more))
    name = "shard-00001.lmdb"
    size = (good / name).stat().st_size
    for cut in range(0, size, PAGE):
        tell = consistent(name, lambda data, cut=cut: data[:cut])  # type: ignore[misc]
        yield Case(f"{name} cut to {cut}, and the manifest says so", tell, right="values")


def replacements(good: Path) -> Iterator[Case]:
    kinds: dict[str, Callable[[Path], Any]] = {
        "nothing": lambda path: None,
        "a FIFO": os.mkfifo,
        "a directory": os.mkdir,
        "a link to what it was": lambda path: path.symlink_to(path.parent.parent / "elsewhere"),
        "a link to itself": lambda path: path.symlink_to(path.name),
        "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    }
    for name in sorted(path.name for path in good.iterdir()):
        for kind, make in kinds.items():
            yield Case(f"{name} is {kind}", replaced(name, make))
    for name, other in (("shard-00000.lmdb", "shard-00001.lmdb"), ("split-train.npy", "split-test.npy")):
        yield Case(f"{name} is {other}", put(name, (good / other).read_bytes()))
    for path in sorted(good.with_name("other.records").iterdir()):
        right = "nothing" if path.name == MANIFEST_NAME else "all"
        yield Case(f"{path.name} of another set", put(path.name, path.read_bytes()), right)
    for name in ("shard-00000.lmdb-lock", "__init__.py"):
        yield Case(f"{name}, a FIFO, beside", lambda folder, name=name: os.mkfifo(folder / name), found=False)  # type: ignore[misc]
    for path in sorted(set(good.iterdir()) - {good / MANIFEST_NAME}):
        data = path.read_bytes()
        for page in range(0, len(data), PAGE):  # in an index: shard 0, offset 0, length 0; 0 is the CRC-32 of nothing
            zeroed = data[:page] + bytes(min(PAGE, len(data) - page)) + data[page + PAGE :]
            if zeroed != data:
                yield Case(f"{path.name} has zeros at {page}", put(path.name, zeroed))


def flips(good: Path) -> Iterator[Case]:
    """1,000 in shards: anywhere, in the heads, in the tree; 300 in all else."""
    rng = np.random.default_rng(11)
    shards = sorted(good.glob("*.lmdb"))
    for number in range(1000):
        path = shards[rng.integers(len(shards))]
        data = path.read_bytes()
        pages = range(len(data) // PAGE)
        tree = [page for page in pages[2:] if struct.unpack_from("<H", data, page * PAGE + 10)[0] in (1, 2)]
        page = [int(rng.integers(len(pages))), int(rng.integers(2)), tree[rng.integers(len(tree))]][number % 3]
        inside = rng.integers(PAGE * 8) if number % 2 else rng.integers(200 * 8)
        bit = int(page * PAGE * 8 + inside)
        yield Case(f"{path.name} bit {bit} (page {page}) flipped", flipped(path.name, bit))
    others = sorted(path for path in good.iterdir() if path.suffix != ".lmdb")
    for number in range(300):
        path = others[number % len(others)]
        bit = int(rng.integers(path.stat().st_size * 8))
        yield Case(f"{path.name} bit {bit} flipped", flipped(path.name, bit))


HUGE = (-1, 1 << 31, 1 << 62, 1 << 63, 1 << 64, 10**400, 1.5, 1e300, True, None, "1", [], {}, [[]], {"a": 1})
NAMES = ("../x", "/etc/passwd", "shard-00001.lmdb", "shard-00000.lmdb/../x", "a\0b", "", "C:\\x", "..", "x" * 10_000)
TYPES = ("|O", "<U9", "V8", "<f16", ">i8", "", [1 << 62], [0, 1 << 40, 1 << 40], [242] * 9, [1 << 40] * 8)
ADDRESSES = ("http://127.0.0.1:9/x", "file:///etc/passwd", "/etc/passwd", "\\\\127.0.0.1\\x", "data:,x")


# Any: JSON values.
def _at(document: Any, place: Sequence[str | int]) -> Any:
    for key in place:
        document = document[key]
    return document


def _forged(place: Sequence[str | int], value: Any, right: str = "nothing") -> Case:
    """A manifest with a value at a place."""
    change = edited(lambda document: _at(document, place[:-1]).__setitem__(place[-1], value))
    return Case(f"{'.'.join(map(str, place))[:60]!r} = {str(value)[:30]!r}", change, right, found=False)


def manifests(good: Path) -> Iterator[Case]:
    """Manifests that no writer of ours writes; signed, so that what refuses them is not the signature."""
    document = json.loads((good / MANIFEST_NAME).read_bytes())
    for key in document:
        yield Case(f"{key} missing", edited(lambda document, key=key: document.pop(key)), right="nothing")  # type: ignore[misc]
    arrays = [("arrays", name) for name in ("target", "names", "names_offsets", "image.index", "split-train")]
    for place in ((), ("shards", 0), ("shards", 1), *arrays, ("blobs", "image"), ("fields", "target")):
        for key in _at(document, place):
            for value in (*HUGE, *NAMES, *(TYPES if place else ())):
                yield _forged((*place, key), value)
    for name in (*NAMES, "image.index", "Image", "names", "split-train"):
        for table, value in (("blobs", {"encoding": "bytes", "shape": None}), ("splits", 121), ("arrays", {})):
            yield _forged((table, name), value)
    for address in ADDRESSES:
        yield _forged(("source",), address, "values")
        yield _forged(("raw_files",), [{"name": address, "bytes": 3, "hash": f"md5:{address}"}], "values")
        yield _forged(("metadata",), {"url": address, "$ref": address}, "values")
    text = (good / MANIFEST_NAME).read_bytes()
    for label, data in {
        "empty": b"",
        "not UTF-8": b'{"format": "\xff"}',
        "UTF-16": text.decode().encode("utf-16"),
        "a list": b"[]",
        "NaN": text.replace(b'"records": 242', b'"records": NaN'),
        "1e400": signed(text.replace(b'"metadata": {', b'"metadata": {"x": 1e400, ')),
        "10^5000": signed(text.replace(b'"records": 242', b'"records": 1' + b"0" * 5000)),
        "a key twice": signed(text.replace(b'"records": 242', b'"records": 242, "records": 242')),
        "deep lists": b'{"metadata": ' + b"[" * 1_000_000,
        "100 MB": text + b" " * 100_000_000,
        "two hashes": text.replace(b'\n "blobs"', b'\n "hash": "sha256:' + b"0" * 64 + b'",\n "blobs"'),
        "another hash": text.replace(b'\n "hash": "sha256:', b'\n "hash": "sha256:0')[:-1],
    }.items():
        yield Case(f"manifest: {label}", put(MANIFEST_NAME, data))


def forgeries(good: Path) -> Iterator[Case]:
    """Sets whose author wanted harm and kept all sizes and hashes right."""

    def row(**values: int) -> Callable[[bytes], bytes]:
        def change(data: bytes) -> bytes:
            rows = np.frombuffer(data[-242 * 24 :], INDEX_DTYPE).copy()
            for name, value in values.items():
                rows[name] = value
            return data[: -242 * 24] + rows.tobytes()

        return change

    def numbers(dtype: str, *values: int) -> Callable[[bytes], bytes]:
        def change(data: bytes) -> bytes:
            array = np.frombuffer(data[128:], dtype).copy()
            array[: len(values)] = values
            return data[:128] + array.tobytes()

        return change

    quiet = [{"shard": 0xFFFFFFFF}, {"length": 0, "crc32": 0}]
    outside = [{"offset": (1 << 64) - 1}, {"offset": (1 << 64) - 4096, "length": 4096}, {"length": 0xFFFFFFFF}]
    for values in (*quiet, *outside, {"shard": 3}, {"offset": 0}, {"slot": 0xFFFFFFFF}):
        change = consistent("image.index.npy", row(**values))
        yield Case(f"index {values}", change, right="nothing", found=values not in quiet)
    for value in (-1, 242, 1 << 62, -(1 << 63)):
        yield Case(f"split has {value}", consistent("split-train.npy", numbers("<i8", value)), right="nothing")
    for values_ in ((1,), (0, 1 << 63), (0, (1 << 64) - 1), (0, 500, 2)):
        change = numbers("<u8", *values_)
        yield Case(f"names' offsets {values_}", consistent("names_offsets.npy", change), right="nothing")
    payload = b"cos\nsystem\n(S'touch pwned'\ntR."
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    pickles: dict[str, Callable[[bytes], bytes]] = {
        "a pickle inside": lambda data: data[:128] + (payload * len(data))[: len(data) - 128],
        "an object header": lambda data: data[:10] + header.ljust(117) + b"\n" + data[128:],
        "a pickle for a file": lambda data: payload,
    }
    for name in ("target.npy", "names.npy", "image.index.npy", "split-train.npy", "names_offsets.npy"):
        for head in (bytes(10), b"\x93NUMPY\2\0", b"\x93NUMPY\1\0\xff\xff"):
            forged = consistent(name, lambda data, head=head: head + data[len(head) :])  # type: ignore[misc]
            yield Case(f"{name} begins with {head!r}", forged, right="nothing")
        for label, new in pickles.items():
            yield Case(f"{name} is {label}", consistent(name, new), right="nothing", found=False)
    yield from _forged_trees(good)


def _forged_trees(good: Path) -> Iterator[Case]:
    name = "shard-00000.lmdb"
    data = (good / name).read_bytes()
    meta = read_meta(data, name)
    tree = [p for p in range(2, len(data) // PAGE) if struct.unpack_from("<H", data, p * PAGE + 10)[0] in (1, 2)]

    def patched(offset: int, form: str, *values: int) -> Callable[[bytes], bytes]:
        def change(data: bytes) -> bytes:
            changed = bytearray(data)
            struct.pack_into(form, changed, offset, *values)
            return bytes(changed)

        return change

    def forged(label: str, change: Callable[[bytes], bytes]) -> Case:
        return Case(label, consistent(name, change), right="values", found=change(data) != data)

    newer = max((0, 1), key=lambda page: struct.unpack_from("<Q", data, page * PAGE + 16 + 24 + 96 + 8)[0])
    head = newer * PAGE + 16
    places = {"map size": head + 16, "depth and flags": head + 24 + 48 + 4, "entries": head + 24 + 48 + 32}
    places |= {"root": head + 24 + 48 + 40, "last page": head + 24 + 96, "transaction": head + 24 + 96 + 8}
    for label, offset in places.items():
        for value in (0, 1, 2, meta.root, 1 << 20, 1 << 62, (1 << 64) - 2):
            case = forged(f"LMDB's head: {label} = {value}", patched(offset, "<Q", value))
            yield replace(case, found=case.found and label in ("root", "last page"))
    for page in tree:
        start = page * PAGE
        lower = struct.unpack_from("<H", data, start + 12)[0]
        nodes = [struct.unpack_from("<H", data, start + at)[0] for at in range(16, lower, 2)]
        for at in range(16, min(lower, 40), 2):
            for value in (0, 1, 16, PAGE - 1, PAGE, 0xFFFF):
                yield forged(f"page {page}: node at {value}", patched(start + at, "<H", value))
        for node in nodes[:3]:
            for value in (0, 1, page, meta.root, tree[-1], meta.last_page, 1 << 20, (1 << 48) - 1):
                at = start + node
                change = patched(at, "<HHH", value & 0xFFFF, value >> 16 & 0xFFFF, value >> 32)
                yield forged(f"page {page}: node's page, or length, {value}", change)
                case = forged(f"page {page}: overflow page {value}", patched(at + 12, "<Q", value))
                yield replace(case, found=case.found and page != meta.root)  # a branch has its key there
        for flags in (0, 1, 2, 3, 4, 0x22, 0x52, 0xFFFF):
            yield forged(f"page {page}: flags {flags:x}", patched(start + 10, "<H", flags))


def deaths(good: Path) -> Iterator[Case]:
    """One that a process does die of, to see that it would be noticed."""
    yield Case("harmless", lambda folder: None, found=False)
    yield Case("deadly", lambda folder: os.kill(os.getpid(), signal.SIGBUS))


GROUPS = {group.__name__: group for group in (deaths, cuts, replacements, flips, manifests, forgeries)}


# Reading a damaged set, and what must never happen then.

_FORBIDDEN_KINDS = ("socket.", "pickle.", "os.exec", "os.spawn", "ctypes.")
_FORBIDDEN = {
    *("subprocess.Popen", "os.posix_spawn", "os.system", "os.fork", "exec", "compile", "import"),
    *("os.remove", "os.rename", "os.mkdir", "os.chmod", "os.truncate", "os.link", "os.symlink", "os.putenv"),
    *("shutil.rmtree", "code.__new__", "marshal.loads"),
}


class Watch:
    """Notes what a reader must never do, through an audit hook: it cannot be switched off, so it asks first.

    Args:
        *inside: Where files may be opened by their whole paths; anywhere, if none are given.
    """

    def __init__(self, *inside: Path) -> None:
        self.inside = tuple(map(str, inside))
        self.on = False
        self.seen: list[str] = []
        project.url("Documentation")  # the first error reads it from the installed package
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            path, _, flags = args
            writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
            bad = not isinstance(path, int) and path != os.devnull and bool((flags or 0) & writes)
            if self.inside and isinstance(path, str) and os.path.isabs(path):
                bad = bad or not path.startswith((*self.inside, "/proc/self/", "/dev/fd/", os.devnull))
        else:
            bad = event.startswith(_FORBIDDEN_KINDS) or event in _FORBIDDEN
        if bad:
            self.seen.append(f"{event} {args!r:.200}")

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False


def contents(folder: Path) -> dict[str, Any]:
    """Read all of a set: what each way of asking gives, or the error's text."""
    found: dict[str, Any] = {}

    def ask(what: str, question: Callable[[], Any]) -> Any:
        try:
            answer = found[what] = question()
        except RecordError as err:
            found[what] = err
            return None
        return answer

    records = ask("reader", lambda: RecordReader(folder))
    if records is None:
        return found
    manifest = records.manifest
    found["reader"] = None
    found["manifest"] = manifest.to_bytes()
    ask("names", lambda: list(records.names))
    for name in manifest.arrays:
        ask(f"array {name}", lambda name=name: (records.array(name).dtype.str, records.array(name).tobytes()))  # type: ignore[misc]
    for name in ("", *manifest.splits):
        ask(f"split {name}", lambda name=name: records.split(name).tolist())  # type: ignore[misc]
    for field in manifest.blobs:
        ask(f"hint {field}", lambda field=field: records.hint(field, range(len(records))))  # type: ignore[misc]
        for position in range(min(len(records), 1000)):

            def read(field: str = field, position: int = position) -> bytes | None:
                return records.read(field, position) if records.has(field, position) else None

            ask(f"{field} {position}", read)
        there = [each for each in range(min(len(records), 1000)) if found[f"{field} {each}"] is not None]
        ask(f"all of {field}", lambda field=field, there=there: records.read_all(field, np.array(there, np.int64)))  # type: ignore[misc]
    return found


def examine(case: Case, folder: Path, right: dict[str, Any], watch: Watch, full: bool) -> list[str]:
    """Return what is wrong with how a damaged set was treated."""
    wrong = []
    try:
        with watch():
            found = contents(folder)
        skipped = {"all": set[str](), "values": {"manifest"}, "nothing": set(found)}[case.right]
        for what, answer in found.items():
            if isinstance(answer, RecordError):
                if not str(answer) or len(str(answer)) > 3000:
                    wrong.append(f"{what}: the error says {str(answer)[:100]!r}")
            elif what not in skipped and answer != right.get(what):
                wrong.append(f"{what}: {str(answer)[:100]} instead of {str(right.get(what))[:100]}")
        if len(found) < len(right) and not isinstance(found["reader"], RecordError) and case.right != "nothing":
            wrong.append("some questions were not asked")
        with watch():
            try:
                report = verify(folder, full=full)
            except ManifestError as err:  # FormatVersionError, or no record set at all
                of_version = any(text in str(err) for text in ("later", "reads format"))
                if os.path.lexists(folder / MANIFEST_NAME) and not of_version:
                    wrong.append(f"verify raises {err}")
            else:
                if report.ok and case.found and full:
                    wrong.append("verify finds nothing")
                if any(isinstance(answer, RecordError) for answer in found.values()) and report.ok and full:
                    wrong.append("verify finds nothing, though reading does")
                print("problems", json.dumps(report.problems[:3]))
    except Exception as err:  # noqa: BLE001  # whatever else comes out is what is looked for
        wrong.append(f"{type(err).__name__} came out: {str(err)[:300]}")
    wrong += watch.seen
    watch.seen = []
    return wrong


def limit_memory() -> None:
    """Give this process a few gigabytes more than it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE
    import resource  # absent on Windows

    resource.setrlimit(resource.RLIMIT_AS, (used + _ADDRESS_SPACE_BYTES,) * 2)


def main(group: str, good: Path, work: Path, how: str, first: int, step: int) -> None:
    right = contents(good)
    assert not any(isinstance(answer, RecordError) for answer in right.values())
    assert verify(good, full=True).ok  # also imports all that it needs
    watch = Watch(good.parent, work)
    limit_memory()
    with watch():
        assert contents(good) == right
        assert verify(good, full=True).ok
    assert not watch.seen, watch.seen
    for number, case in enumerate(GROUPS[group](good)):
        if number % step != first:
            continue
        print("case", number, case.name.encode("ascii", "backslashreplace").decode(), flush=True)
        folder = work / "set.records"
        folder.mkdir()
        for path in good.iterdir():
            os.link(path, folder / path.name)
        case.damage(folder)
        signal.setitimer(signal.ITIMER_REAL, _CASE_S)
        for problem in examine(case, folder, right, watch, how == "full"):
            print("wrong", problem.encode("ascii", "backslashreplace").decode(), flush=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        shutil.rmtree(folder)
        with contextlib.suppress(FileNotFoundError):
            (work / "elsewhere").unlink()
    print("end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
