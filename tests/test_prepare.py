import errno
import hashlib
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordzoo.base import files
from recordzoo.errors import DiskSpaceError, HashMismatchError, NotPreparedError, PrepareError, RecordError, SourceError
from recordzoo.preparing import convert, preparation
from recordzoo.preparing.convert import UnitShards
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import Preparation, ensure
from recordzoo.raw.member import Member
from recordzoo.recipes.recipe import Blob, Sidecar
from recordzoo.records.reader import RecordReader
from recordzoo.records.shard import ShardWriter, seal, stored_bytes
from recordzoo.records.verify import verify
from tests import preparing
from tests.fakes import simple
from tests.fakes.archives import tar
from tests.fakes.pictures import encoded, picture
from tests.fakes.records import flip_byte
from tests.fakes.server import FileServer
from tests.fakes.simple import FORMS, SimpleRecipe
from tests.preparing import SHARD_BYTES, Notes, beside, contents
from tests.running import python


# Any: the options of `ensure`.
def prepare(root: Path, form: str, **options: Any) -> Path:
    recipe = SimpleRecipe(form, options.pop("raw_files", ()))
    return ensure(recipe, root, **{"shard_bytes": SHARD_BYTES, "workers": 1, **options})


def read_all(path: Path) -> dict[str, bytes]:
    """All blobs of a set by name, and its labels under the name that the raw data has for them."""
    reader = RecordReader(path)
    names = list(reader.names)
    found = {name: reader.read("image", i) for i, name in enumerate(names)}
    for i, name in enumerate(names):
        if reader.has("caption", i):
            found[name.rpartition(".")[0] + ".txt"] = reader.read("caption", i)
    lines = zip(names, reader.array("target").tolist(), strict=True)
    found[simple.LABELS] = "".join(f"{name} {label}\n" for name, label in lines).encode()
    return found


@dataclass(frozen=True)
class Golden:
    """A set that was prepared without any trouble."""

    root: Path
    path: Path
    files: dict[str, str]


def undisturbed(form: str, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    root = tmp_path_factory.mktemp(form)
    simple.write(root, form)
    path = prepare(root, form)
    return Golden(root, path, contents(path))


@pytest.fixture(scope="module", params=list(FORMS))
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return undisturbed(request.param, tmp_path_factory)


def form_of(golden: Golden) -> str:
    return next(form for form, name in FORMS.items() if (golden.root / name).exists())


class TestRoundTrip:
    def test_every_byte_is_as_it_was(self, golden: Golden) -> None:
        raw = dict(simple.values())
        found = read_all(golden.path)
        names = sorted(raw.pop(simple.LABELS).decode().splitlines())
        assert sorted(found.pop(simple.LABELS).decode().splitlines()) == names
        assert found == raw

    def test_it_is_cut_into_shards(self, golden: Golden) -> None:
        shards = sorted(golden.path.glob("*.lmdb"))
        assert len(shards) >= 5
        assert all(path.stat().st_size < 4 * SHARD_BYTES for path in shards)

    @pytest.mark.parametrize("mean_bytes", [700, 3_000, 50_000])
    def test_a_unit_of_a_tree_fills_one_shard(self, mean_bytes: int, tmp_path: Path) -> None:
        sizes = np.random.default_rng(1).gamma(4, mean_bytes / 4, 400).astype(int)
        files = {f"c/{number:04d}.jpg": bytes(size) for number, size in enumerate(sizes.tolist())}
        files[simple.LABELS] = "".join(f"{name} 0\n" for name in files).encode()
        simple.write(tmp_path, "tree", files)
        path = prepare(tmp_path, "tree", shard_bytes=int(sizes.sum()) // 4)
        shards = [each.stat().st_size for each in sorted(path.glob("*.lmdb"))]
        assert min(shards[:-1]) > 0.6 * max(shards)
        assert len(shards) <= 7

    @pytest.mark.parametrize("workers", [1, 2, 3])
    def test_the_same_bytes_whatever_the_workers(self, golden: Golden, workers: int, tmp_path: Path) -> None:
        path = prepare(golden.root, form_of(golden), workers=workers, records_dir=tmp_path / "x.records")
        assert contents(path) == golden.files

    def test_the_second_call_writes_nothing_and_says_nothing(self, golden: Golden) -> None:
        code = (
            "import logging, os, sys\nlogging.basicConfig(level=logging.DEBUG)\nfrom pathlib import Path\n"
            "from recordzoo.preparing.preparation import ensure\n"
            "from tests.fakes.simple import SimpleRecipe\n"
            "root, seen = Path(sys.argv[1]), []\n"
            "def hook(event, args):\n"
            "    if event == 'open' and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT): seen.append(args[0])\n"
            "    if event in ('os.mkdir', 'os.rename', 'os.remove', 'os.rmdir', 'socket.connect'): seen.append(event)\n"
            "sys.addaudithook(hook)\n"
            "print(ensure(SimpleRecipe(sys.argv[2]), root), seen)\n"
        )
        done = python("-c", code, golden.root, form_of(golden))
        assert (done.stdout, done.stderr) == (f"{golden.path} []\n", "")

    def test_an_empty_tree_gives_an_empty_set(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "tree", {simple.LABELS: b""})
        reader = RecordReader(prepare(tmp_path, "tree"))
        assert len(reader) == 0

    def test_a_value_larger_than_a_shard_has_one_of_its_own(self, tmp_path: Path) -> None:
        files = {"c000/0000.jpg": encoded(picture(np.random.default_rng(0), 9, 9), "JPEG") + bytes(3 * SHARD_BYTES)}
        files |= {"c000/0001.txt": b"x", simple.LABELS: b"c000/0000.jpg 0\n"}
        simple.write(tmp_path, "stream", files)
        path = prepare(tmp_path, "stream")
        assert read_all(path)["c000/0000.jpg"] == files["c000/0000.jpg"]

    def test_of_two_members_with_one_name_the_later_counts(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        image = encoded(picture(np.random.default_rng(0), 9, 9), "JPEG")
        entries = [("c000/0000.jpg", image + b"1"), ("c000/0000.jpg", image + b"2")]
        (tmp_path / FORMS["stream"]).write_bytes(tar([*entries, (simple.LABELS, b"c000/0000.jpg 0")]))
        reader = RecordReader(prepare(tmp_path, "stream"))
        assert [reader.read("image", i) for i in range(len(reader))] == [image + b"2"]
        assert "1 image names stand twice" in caplog.text

    def test_no_file_is_left_open(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A disk that fails while one shard is read back and the next one is open."""

        def fail(path: Path, lengths: object, crcs: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

        simple.write(tmp_path, "stream")
        monkeypatch.setattr(convert, "seal", fail)
        with pytest.raises(PrepareError, match="Input/output error") as caught:
            prepare(tmp_path, "stream")
        links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        assert not [path for path in links if path.is_relative_to(tmp_path)]
        assert caught.value.__cause__ is not None


class TestRoomInAShard:
    """LMDB's map has a size that is fixed in advance; whatever the values, a shard's is large enough."""

    @pytest.mark.parametrize("lengths", [(1,), (2031, 1), (2026, 1346), (1346, 1346, 2026), (2033,), (4081,)])
    def test_values_that_waste_the_most_room(self, lengths: tuple[int, ...], tmp_path: Path) -> None:
        """Where values of two lengths alternate, a page holds fewer of them than of either alone."""
        values = [bytes([number % 251]) * length for number, length in enumerate(lengths * (12_000 // len(lengths)))]
        with UnitShards(tmp_path, 0, shard_bytes=sum(stored_bytes(len(value)) for value in values)) as shards:
            for number, value in enumerate(values):
                shards.put(Blob("image", str(number), value))
        assert [done.spec.num_values for done in shards.done] == [len(values)]

    @pytest.mark.parametrize("shard_bytes", [1, 5000, SHARD_BYTES])
    def test_values_of_all_sizes_in_small_shards(self, shard_bytes: int, tmp_path: Path) -> None:
        sizes = [0, 20 << 20, *(np.random.default_rng(3).pareto(0.7, 100) * 1000).astype(int).tolist()]
        with UnitShards(tmp_path, 0, shard_bytes=shard_bytes) as shards:
            for number, size in enumerate(sizes):
                shards.put(Blob("image", str(number), bytes(size)))
        assert sum(done.spec.num_values for done in shards.done) == len(sizes)

    @pytest.mark.parametrize("length", [1, 1346, 100_000, 20 << 20])
    def test_a_file_that_is_too_small_grows(self, length: int, tmp_path: Path) -> None:
        values = [bytes([number]) * length for number in range(max(3, min(200, (40 << 20) // length)))]
        with ShardWriter(tmp_path / "x.lmdb", 1 << 16) as writer:
            for value in values:
                writer.put(value)
        lengths, crcs = [len(value) for value in values], [zlib.crc32(value) for value in values]
        assert len(seal(tmp_path / "x.lmdb", lengths, crcs)[1]) == len(values)


class TestRefusals:
    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(
            NotPreparedError, match=r"no records and no raw data in .*looked for simple.records, simple"
        ):
            prepare(tmp_path, "tree")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("download", [False, True])
    def test_a_root_that_is_not_there_is_made_only_to_download_into(self, tmp_path: Path, download: bool) -> None:
        root = tmp_path / "no" / "root"
        with pytest.raises(NotPreparedError):
            prepare(root, "tree", download=download)
        assert sorted(tmp_path.rglob("*")) == ([root.parent, root] if download else [])

    @pytest.mark.parametrize("options", [{}, {"download": True}, {"refresh": True}])
    @pytest.mark.parametrize("is_there", [True, False])
    def test_prepare_false_comes_before_all_else(
        self, options: dict[str, bool], is_there: bool, tmp_path: Path
    ) -> None:
        archive, root = simple.write(tmp_path / "server", "stream"), tmp_path / "no" / "root"
        if is_there:
            shutil.copytree(tmp_path / "server", root)
        with FileServer(tmp_path / "server") as server:
            raw_files = (simple.remote(archive, server.url),)
            with pytest.raises(NotPreparedError, match=r"no (records|raw data)"):
                prepare(root, "stream", raw_files=raw_files, prepare=False, **options)
        assert server.log == []
        assert [path.name for path in root.iterdir()] == [archive.name] if is_there else not root.parent.exists()

    def test_prepare_false_makes_nothing_again(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "tree")
        inode = prepare(tmp_path, "tree").stat().st_ino
        with pytest.raises(NotPreparedError, match=r"not made again.*Run: recordzoo prepare simple --root"):
            prepare(tmp_path, "tree", prepare=False, refresh=True)
        assert prepare(tmp_path, "tree", prepare=False).stat().st_ino == inode

    def test_more_than_a_constructor_converts_unasked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        simple.write(tmp_path, "tree")
        monkeypatch.setenv("RECORDZOO_AUTO_PREPARE_GB", "0.0001")
        with pytest.raises(NotPreparedError, match=r"more than 100 kB .*Run: recordzoo prepare simple --root"):
            prepare(tmp_path, "tree")
        assert beside(tmp_path, "tree") == []
        assert len(RecordReader(prepare(tmp_path, "tree", prepare=True))) == 40

    @pytest.mark.parametrize("refresh", [False, True])
    def test_what_lies_in_the_way_is_left_alone(self, refresh: bool, tmp_path: Path) -> None:
        simple.write(tmp_path, "tree")
        mine = tmp_path / "simple.records" / "thesis.tex"
        mine.parent.mkdir()
        mine.write_text("years of work")
        with pytest.raises(PrepareError, match="is in the way"):
            prepare(tmp_path, "tree", refresh=refresh)
        assert mine.read_text() == "years of work"
        assert beside(tmp_path, "tree") == ["simple.records"]

    def test_an_empty_directory_is_not_in_the_way(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "tree")
        (tmp_path / "simple.records").mkdir()
        assert len(RecordReader(prepare(tmp_path, "tree"))) == 40

    @pytest.mark.parametrize("target", ["an empty directory", "nowhere/yet"])
    @pytest.mark.parametrize("named", [False, True])
    def test_a_link(self, named: bool, target: str, tmp_path: Path) -> None:
        simple.write(tmp_path / "root", "tree")
        large = tmp_path / target
        if target == "an empty directory":
            large.mkdir()
        link = tmp_path / "root" / ("mine.records" if named else "simple.records")
        link.symlink_to(large)
        prepare(tmp_path / "root", "tree", **({"records_dir": link} if named else {}))
        assert link.readlink() == large
        assert len(RecordReader(large)) == 40
        assert beside(tmp_path / "root", "tree") == [link.name]
        assert os.listdir(large.parent) == [large.name] or sorted(os.listdir(tmp_path)) == [target, "root"]


@pytest.fixture(scope="module")
def broken() -> dict[str, bytes]:
    images = dict(simple.values(num_classes=2))
    images["c000/0001.jpg"] = b""
    images["c000/0002.jpg"] = b"this is no picture" * 100
    images["c001/0003.png"] = images["c001/0003.png"][:20]
    return images


BROKEN = {"c000/0001.jpg": "an empty file", "c000/0002.jpg": "no image format", "c001/0003.png": ""}


class TestBrokenImages:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_keep(
        self, workers: int, broken: dict[str, bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        simple.write(tmp_path, "tree", broken)
        reader = RecordReader(path := prepare(tmp_path, "tree", workers=workers))
        assert len(reader) == 20
        assert {name: read_all(path)[name] for name in BROKEN} == {name: broken[name] for name in BROKEN}
        assert sorted(reader.manifest.bad) == sorted(BROKEN)
        assert all(BROKEN[name] in why for name, why in reader.manifest.bad.items())
        assert "3 broken images were kept as they are: " in caplog.text
        assert all(name in caplog.text for name in BROKEN)

    def test_skip(self, broken: dict[str, bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        simple.write(tmp_path, "tree", broken)
        reader = RecordReader(prepare(tmp_path, "tree", on_error="skip"))
        assert len(reader) == 17
        assert not set(reader.names) & set(BROKEN)
        assert sorted(reader.manifest.skipped) == sorted(BROKEN)
        assert "3 broken images were left out: " in caplog.text

    @pytest.mark.parametrize("workers", [1, 2])
    def test_raise(self, workers: int, broken: dict[str, bytes], tmp_path: Path) -> None:
        simple.write(tmp_path, "tree", broken)
        with pytest.raises(PrepareError, match=r"Pass on_error='keep' or 'skip' to go on without it") as caught:
            prepare(tmp_path, "tree", workers=workers, on_error="raise")
        named = str(caught.value).partition(": ")[0]
        # Of several workers, whichever comes to its broken image first.
        assert named == "c000/0001.jpg" if workers == 1 else named in BROKEN
        assert BROKEN[named] in str(caught.value)
        assert not (tmp_path / "simple.records").exists()
        (left,) = preparing.builds(tmp_path)  # of other options: not taken over, and in nobody's way
        assert len(RecordReader(prepare(tmp_path, "tree"))) == 20
        assert not left.exists()

    @pytest.mark.parametrize("on_error", ["keep", "skip", "raise"])
    def test_what_is_not_called_an_image_is_not_looked_at(
        self, on_error: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """`ImageFolder(loader=np.load, is_valid_file=...)`: the loader knows what it is."""
        simple.write(tmp_path, "tree", {"c000/0000.npy": b"numbers", simple.LABELS: b"c000/0000.npy 0"})
        reader = RecordReader(prepare(tmp_path, "tree", on_error=on_error))
        assert reader.read("image", 0) == b"numbers"
        assert not reader.manifest.bad
        assert "broken" not in caplog.text

    @pytest.mark.parametrize(("on_error", "kind"), [("keep", "bad"), ("skip", "skipped")])
    def test_of_very_many_the_manifest_names_the_first(
        self, on_error: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        simple.write(tmp_path, "tree", simple.alike(5, 1002))
        manifest = RecordReader(prepare(tmp_path, "tree", on_error=on_error)).manifest
        assert list(getattr(manifest, kind)) == [f"c000/{number:05d}.jpg" for number in range(1000)]
        assert manifest.metadata == {f"num_{kind}": 1002}
        assert "1002 broken images were" in caplog.text


ZEROS = 32 * "0"


class TestRawData:
    @pytest.fixture
    def archive(self, tmp_path: Path) -> Path:
        return simple.write(tmp_path, "stream")

    @pytest.mark.parametrize("form", ["stream", "nested"])
    @pytest.mark.parametrize(
        ("facts", "recorded", "warning"),
        [
            ({}, "md5:{md5}", ""),
            ({"md5": None, "size_bytes": None}, "sha256:{sha256}", ""),
            ({"unconfirmed": True}, "md5:{md5}", ""),
            ({"md5": ZEROS, "unconfirmed": True}, "md5:{md5}", f"has the MD5 {{md5}}, not {ZEROS}. The file was kept"),
            ({"sha256": "right", "md5": ZEROS}, "sha256:{sha256}", ""),
            (
                {"sha256": 2 * ZEROS},
                "sha256:{sha256}",
                f"has the SHA-256 {{sha256}}, not {2 * ZEROS}; but it has the expected MD5, {{md5}}",
            ),
        ],
    )
    def test_the_hash_that_stands_in_the_manifest(
        self,
        form: str,
        facts: dict[str, Any],
        recorded: str,
        warning: str,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        archive = simple.write(tmp_path, form)
        known = {name: hashlib.new(name, archive.read_bytes()).hexdigest() for name in ("md5", "sha256")}
        facts = {name: known["sha256"] if value == "right" else value for name, value in facts.items()}
        raw_files = (simple.remote(archive, **facts),)
        reader = RecordReader(prepare(tmp_path, form, raw_files=raw_files, workers=2))
        (raw_file,) = reader.manifest.raw_files
        assert (len(reader), raw_file.name, raw_file.size_bytes) == (40, archive.name, archive.stat().st_size)
        assert raw_file.hash == recorded.format(**known)
        assert warning.format(**known) in caplog.text
        assert warning or f"{archive} has" not in caplog.text

    @pytest.mark.parametrize("form", ["stream", "nested"])
    @pytest.mark.parametrize(
        ("facts", "text"),
        [
            ({"md5": ZEROS}, f"expected md5 {ZEROS}, found {{md5}}"),
            ({"md5": ZEROS, "sha256": 2 * ZEROS}, f"expected sha256 {2 * ZEROS} or md5 {ZEROS}, found {{sha256}}"),
            ({"size_bytes": 5}, "expected 5 bytes, found {size:,}."),
        ],
    )
    def test_another_hash_or_size(
        self, form: str, facts: dict[str, Any], text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        archive = simple.write(tmp_path, form)
        known = {name: hashlib.new(name, archive.read_bytes()).hexdigest() for name in ("md5", "sha256")}
        raw_files = (simple.remote(archive, **facts),)
        with pytest.raises(HashMismatchError, match="Nothing was published") as caught:
            prepare(tmp_path, form, raw_files=raw_files, workers=2)
        assert text.format(**known, size=archive.stat().st_size) in str(caught.value)
        assert ("converting" in caplog.text) == ("size_bytes" not in facts)  # a wrong size is said at once
        assert beside(tmp_path, form) == []
        reader = RecordReader(prepare(tmp_path, form, raw_files=raw_files, check_hash=False))
        assert (len(reader), reader.manifest.raw_files[0].hash) == (40, None)

    def test_raw_data_that_changed_unseen_before_a_resume(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Names, sizes and times agree with the interrupted run, and yet other members come: start over, by itself."""
        simple.write(tmp_path, "stream")
        interrupt(monkeypatch, tmp_path, "c003/0004.jpg")
        original = SimpleRecipe.extract

        def renamed(self: SimpleRecipe, member: Member) -> Iterator[Blob | Sidecar]:
            for item in original(self, member):
                yield (
                    item if isinstance(item, Sidecar) else Blob(item.field, item.key.replace("c000", "d000"), item.data)
                )

        with monkeypatch.context() as patched:
            patched.setattr(SimpleRecipe, "extract", renamed)
            with pytest.raises(SourceError, match=r"changed since its preparation began: 'c000/0000.jpg' was there"):
                prepare(tmp_path, "stream")
        assert beside(tmp_path, "stream") == []
        assert len(RecordReader(prepare(tmp_path, "stream"))) == 40

    def test_discard_raw_deletes_only_what_it_downloaded(self, tmp_path: Path) -> None:
        source, mine, theirs = tmp_path / "server", tmp_path / "mine", tmp_path / "theirs"
        simple.write(source, "stream")
        simple.write(theirs, "stream")
        with FileServer(source) as server:
            raw_files = (simple.remote(source / FORMS["stream"], server.url),)
            for root in (mine, theirs):
                prepare(root, "stream", raw_files=raw_files, download=True, discard_raw=True)
        assert os.listdir(mine) == ["simple.records"]
        assert sorted(os.listdir(theirs)) == ["simple.records", "simple.tgz"]
        assert len(server.log) == 1

    def test_discard_raw_leaves_what_is_in_its_place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source, root = tmp_path / "server", tmp_path / "root"
        archive = simple.write(source, "stream")
        with FileServer(source) as server:
            options: dict[str, Any] = {"raw_files": (simple.remote(archive, server.url),), "download": True}
            with monkeypatch.context() as patched:
                patched.setattr(SimpleRecipe, "build_table", None)
                with pytest.raises(TypeError):
                    prepare(root, "stream", **options)
            assert f".{archive.name}.recordzoo" in os.listdir(root)
            (root / archive.name).unlink()
            shutil.copy(archive, root)
            prepare(root, "stream", discard_raw=True, **options)
        assert sorted(os.listdir(root)) == ["simple.records", archive.name]

    def test_a_recipe_says_how_large_its_records_are(self, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(SimpleRecipe, "expansion", 1e12)
        size = archive.stat().st_size
        outlook = Preparation(SimpleRecipe("stream"), archive.parent, Options()).outlook()
        assert outlook.peak_bytes == size + size * 10**12
        with pytest.raises(DiskSpaceError):
            prepare(archive.parent, "stream")
        with FileServer(archive.parent) as server, pytest.raises(DiskSpaceError):
            prepare(archive.parent / "b", "stream", raw_files=(simple.remote(archive, server.url),), download=True)
        assert server.log == []


class Accident(Exception):
    """Something that goes wrong in the middle."""


def interrupt(monkeypatch: pytest.MonkeyPatch, root: Path, name: str, form: str = "stream") -> Path:
    """Prepare until a member comes; return the build that is left."""

    def interrupted(member: Member) -> None:
        if member.name == name:
            raise Accident

    with monkeypatch.context() as patched:
        simple.before_members(patched, interrupted)
        with pytest.raises(Accident):
            prepare(root, form)
    (left,) = preparing.builds(root)
    return left


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return undisturbed("stream", tmp_path_factory)


def shards_of(build: Path) -> list[Path]:
    return sorted(build.glob("*.lmdb"))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "nothing": lambda build: None,
    "a flipped bit in a shard": lambda build: flip_byte(shards_of(build)[1], 9000),
    "a shard that is cut": lambda build: os.truncate(shards_of(build)[2], 4096),
    "a shard that is gone": lambda build: shards_of(build)[0].unlink(),
    "facts that are cut": lambda build: os.truncate(sorted(build.glob("*.npz"))[1], 100),
    "facts that are empty": lambda build: os.truncate(sorted(build.glob("*.npz"))[0], 0),
    "facts with a flipped bit": lambda build: flip_byte(sorted(build.glob("*.npz"))[1], 200),
    "facts of something else": lambda build: np.savez(sorted(build.glob("*.npz"))[0], facts=np.zeros(3, np.uint8)),
    "no facts": lambda build: [path.unlink() for path in build.glob("*.npz")],
    "shards that have their final names": lambda build: [
        path.rename(build / "set" / f"shard-{number:05d}.lmdb") for number, path in enumerate(shards_of(build))
    ],
    "junk": lambda build: [
        (build / "u00000-00009.abcd.tmp").write_bytes(b"x"),
        (build / "a directory" / "in it").mkdir(parents=True),
        (build / "set" / "junk").write_bytes(b"x"),
        (build / "set" / "more junk").mkdir(),
    ],
    "no plan": lambda build: (build / "plan.json").unlink(),
    "a torn plan": lambda build: os.truncate(build / "plan.json", 10),
    "a plan of another kind": lambda build: (build / "plan.json").write_text("[]"),
    "no lock": lambda build: (build / "lock").unlink(),
    "no set": lambda build: shutil.rmtree(build / "set"),
    "an empty directory": lambda build: [shutil.rmtree(build), build.mkdir()],
}


class TestWhatIsLeft:
    """Whatever an earlier run left, the same call ends with the same bytes, and nothing of it is left."""

    @pytest.mark.parametrize("damage", list(DAMAGE))
    def test_damage(self, damage: str, stream: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shutil.copytree(stream.root, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.records"))
        build = interrupt(monkeypatch, tmp_path, "c003/0004.jpg")
        assert len(shards_of(build)) >= 3
        DAMAGE[damage](build)
        assert contents(prepare(tmp_path, "stream")) == stream.files
        assert beside(tmp_path, "stream") == ["simple.records"]

    @pytest.mark.parametrize(
        ("option", "value"),
        [("shard_bytes", 2 * SHARD_BYTES), ("on_error", "skip"), ("writer", preparation.WRITER - 1)],
    )
    def test_what_other_options_or_versions_made_is_not_used(
        self, option: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        options = {} if option == "writer" else {option: value}
        simple.write(tmp_path, "stream")
        whole = contents(prepare(tmp_path, "stream", records_dir=tmp_path / "whole.records", **options))
        with monkeypatch.context() as patched:
            if option == "writer":
                patched.setattr(preparation, "WRITER", value)
            left = interrupt(monkeypatch, tmp_path, "c003/0004.jpg")
        inodes = {path.stat().st_ino for path in shards_of(left)}
        for path in shards_of(left):
            path.with_suffix("").hardlink_to(path)  # else a new file may get the number of one that is gone
            (left / path.stem).rename(tmp_path / path.stem)
        assert len(inodes) >= 3
        caplog.set_level(logging.INFO)
        path = prepare(tmp_path, "stream", **options)
        assert contents(path) == whole
        assert not inodes & {each.stat().st_ino for each in path.iterdir()}
        assert f"{left} was an interrupted preparation with other options or raw data" in caplog.text
        assert not left.exists()

    def test_something_else_has_the_name_of_the_build(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "stream")
        (tmp_path / "simple.records.build").write_text("mine")
        with pytest.raises(PrepareError, match=r"simple\.records\.build is in the way"):
            prepare(tmp_path, "stream")
        assert (tmp_path / "simple.records.build").read_text() == "mine"


class TestRefresh:
    @pytest.fixture(params=[True, False], ids=["renameat2", "two renames"])
    def root(self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        if not request.param:
            monkeypatch.setattr(files, "exchange", lambda first, second: False)
        simple.write(tmp_path, "tree")
        prepare(tmp_path, "tree")
        return tmp_path

    def test_old_and_new_are_exchanged(self, root: Path) -> None:
        old = RecordReader(root / "simple.records")
        assert old.read("image", 0) == simple.values()["c000/0000.jpg"]
        simple.write(root, "tree", changed := simple.values(seed=2))
        path = prepare(root, "tree", refresh=True)
        new = RecordReader(path)
        assert new.digest != old.digest
        assert [new.read("image", i) for i in range(40)] == [changed[name] for name in new.names]
        assert old.read("image", 0) == simple.values()["c000/0000.jpg"]  # what it has open stays
        assert beside(root, "tree") == ["simple.records"]

    def test_who_has_it_open_is_told(self, root: Path) -> None:
        """What is open can be read; a shard that was not read before is gone with the old set."""
        old = RecordReader(root / "simple.records")
        simple.write(root, "tree", simple.values(seed=2))
        prepare(root, "tree", refresh=True)
        with pytest.raises(RecordError, match="was replaced by another record set since it was opened"):
            old.read("image", 39)

    def test_verifying_meanwhile_finds_no_damage(self, root: Path) -> None:
        class Refreshing(Notes):
            """Prepares the set again while its shards are read."""

            is_done = False

            def advance(self, num_bytes: int = 0, num_images: int = 0) -> None:
                if not self.is_done:
                    self.is_done = True
                    simple.write(root, "tree", simple.values(seed=2))
                    prepare(root, "tree", refresh=True)

        assert verify(root / "simple.records", full=True, progress=Refreshing()).ok

    def test_behind_a_link_the_set_is_exchanged_and_not_the_link(self, root: Path, tmp_path: Path) -> None:
        before = (root / "simple.records").rename(tmp_path / "large").stat().st_ino
        (root / "simple.records").symlink_to(tmp_path / "large")
        prepare(root, "tree", refresh=True)
        assert (root / "simple.records").readlink() == tmp_path / "large"
        assert (tmp_path / "large").stat().st_ino != before
        assert len(RecordReader(tmp_path / "large")) == 40
        assert beside(root, "tree") == ["large", "simple.records"]
