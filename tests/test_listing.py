"""Record sets of lists: the list's order, whatever the order of writing; what is refused, resumed and made anew."""

import json
import os
import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader

from recordzoo import ImageFolderRecord
from recordzoo.cli.options import parse_bytes
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, PrepareError, SourceError
from recordzoo.families.folders import PathLoader, files_folder
from recordzoo.own.lists import ListRecipe
from recordzoo.preparing.options import Options
from recordzoo.preparing.preparation import Preparation, ensure
from recordzoo.raw.member import Member
from recordzoo.recipes.recipe import Blob
from recordzoo.records.kinds import FieldKind, FieldSpec
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from recordzoo.records.writer import LIST_FILE
from tests.fakes import simple
from tests.fakes.folder import image_bytes
from tests.fakes.lists import LABELS, NAMES, plain, write_images, write_list
from tests.fakes.simple import SimpleRecipe
from tests.preparing import contents, prepared
from tests.running import python, run

TABLE = ["path,label,class_name,split,weight,caption"] + [
    f'{name},{number % 3},{"abc"[number % 3]},{"train" if number % 2 else "val"},{number / 4},"{name}, ""{number}"""'
    for number, name in enumerate(NAMES)
]
FIRST_ORDER = [NAMES[number] for number in (0, 6, 4, 7, 1, 8, 2, 5, 3)]
"""How the files are written with the seed 1."""

TWICE = [*TABLE, f'{NAMES[1]},2,c,train,9.5,"the same picture"']


@pytest.fixture
def images(tmp_path: Path) -> dict[str, bytes]:
    return write_images(tmp_path)


# Any: options of `prepare`.
def made(path: Path, **options: Any) -> RecordReader:
    return RecordReader(prepared(path, **{"workers": 1, **options}))


def values(reader: RecordReader) -> list[bytes]:
    return [reader.read("image", position) for position in range(len(reader))]


def written_order(reader: RecordReader) -> list[str]:
    """The names in the order in which their values lie in the shards."""
    index = reader.array("image.index")
    return [reader.names[position] for position in np.lexsort((index["slot"], index["shard"])).tolist()]


class TestWhatIsStored:
    def test_everything_that_the_list_says(self, images: dict[str, bytes], tmp_path: Path) -> None:
        reader = made(write_list(tmp_path / "list.csv", TWICE))
        assert reader.path == tmp_path / "list.records"
        assert list(reader.names) == [*NAMES, NAMES[1]]
        assert values(reader) == [images[name] for name in reader.names]
        assert reader.array("target").tolist() == [*(number % 3 for number in range(len(NAMES))), 2]
        assert reader.manifest.classes == ("a", "b", "c")
        assert reader.split("val").tolist() == [0, 2, 4, 6, 8]
        assert reader.split("train").tolist() == [1, 3, 5, 7, 9]
        assert reader.array("weight").tolist() == [*(number / 4 for number in range(len(NAMES))), 9.5]
        captions = [reader.value("caption", position) for position in range(len(reader))]
        assert captions == [*(f'{name}, "{number}"' for number, name in enumerate(NAMES)), "the same picture"]
        assert (reader.manifest.dataset, reader.manifest.source) == ("list", "list")
        assert verify(reader.path, full=True).problems == []

    def test_a_file_that_is_listed_twice_is_stored_once(self, images: dict[str, bytes], tmp_path: Path) -> None:
        lines = [f"{NAMES[0]} cat", f"{NAMES[1]} dog", f"{NAMES[0]} dog", f"{NAMES[0]} cat"]
        reader = made(write_list(tmp_path / "list.txt", lines))
        assert [spec.num_values for spec in reader.manifest.shards] == [2]
        assert values(reader) == [images[NAMES[number]] for number in (0, 1, 0, 0)]
        assert reader.array("target").tolist() == [0, 1, 1, 0]

    def test_absolute_paths_and_those_of_other_directories(self, images: dict[str, bytes], tmp_path: Path) -> None:
        lines = [f"{tmp_path}/{NAMES[1]} cat", f"../{NAMES[3]} dog", f"./../{NAMES[3]} dog"]
        reader = made(write_list(tmp_path / "lists" / "my.txt", lines), allow_paths=True)
        assert list(reader.names) == [f"{tmp_path}/{NAMES[1]}", f"../{NAMES[3]}", f"./../{NAMES[3]}"]
        assert values(reader) == [images[NAMES[1]], images[NAMES[3]], images[NAMES[3]]]

    def test_labels_with_fractions_are_numbers(self, images: dict[str, bytes], tmp_path: Path) -> None:
        labels = ["8.44", "7", *(str(number / 4) for number in range(len(NAMES) - 2))]
        path = write_list(tmp_path / "list.txt", plain(labels=labels))
        reader = made(path)
        assert reader.array("target").tolist() == [float(np.float32(label)) for label in labels]
        assert reader.manifest.fields["target"] == FieldSpec(FieldKind.FLOAT)
        dataset = ImageFolderRecord(reader.path)
        assert (dataset.classes, dataset[0][1], type(dataset[0][1])) == ([], np.float32(8.44), np.float32)
        assert (
            f"{path}: images from 'path'; targets: target from 'label' (float)"
            in run("prepare", path, "--refresh", cwd=tmp_path).stderr
        )
        for one, other in (("1", "2"), ("cat", "8.44"), ("1", "nan")):
            labels = [one, *[other] * (len(NAMES) - 1)]
            reader = made(write_list(path, plain(labels=labels)), refresh=True)
            assert reader.manifest.fields["target"].kind is FieldKind.CLASS

    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize("options", [{}, {"shuffle_seed": 4}, {"num_shards": 3}])
    def test_the_same_bytes_each_time(
        self, workers: int, options: dict[str, int], images: dict[str, bytes], tmp_path: Path
    ) -> None:
        path = write_list(tmp_path / "list.csv", TWICE)
        options = options if "num_shards" in options else {**options, "shard_bytes": 9000}
        one = made(path, output=tmp_path / "one", **options)
        shutil.copytree(one.path, tmp_path / "kept")
        again = made(path, output=one.path, refresh=True, workers=workers, **options)
        assert contents(again.path) == contents(tmp_path / "kept")

    def test_broken_images_are_kept_or_left_out(self, images: dict[str, bytes], tmp_path: Path) -> None:
        (tmp_path / NAMES[1]).write_bytes(image_bytes("a.jpg", 0)[:3])  # a JPEG that ends in its header
        path = write_list(tmp_path / "list.csv", TWICE)
        assert list(made(path, output=tmp_path / "kept").manifest.bad) == [NAMES[1]]
        reader = made(path, output=tmp_path / "skipped", on_error="skip")
        assert list(reader.manifest.skipped) == [NAMES[1]]
        assert list(reader.names) == [name for name in NAMES if name != NAMES[1]]
        assert values(reader) == [images[name] for name in reader.names]
        assert reader.value("caption", 1) == f'{NAMES[2]}, "2"'
        assert reader.array("weight").tolist() == [0, *(number / 4 for number in range(2, len(NAMES)))]
        assert reader.split("val").tolist() == [0, 1, 3, 5, 7]
        assert reader.split("train").tolist() == [2, 4, 6]
        assert len(made(path, output=tmp_path / "skipped", on_error="skip")) == 8
        with pytest.raises(PrepareError, match=r"a\.jpg: no image format"):
            made(path, output=tmp_path / "raise", on_error="raise")

    @pytest.mark.parametrize("name", ["id_rsa", "notes.txt", "a.npy", "picture.jpg", "empty.png"])
    def test_bytes_that_are_no_image_are_refused(self, images: dict[str, bytes], tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"" if name == "empty.png" else b"-----BEGIN OPENSSH PRIVATE KEY-----")
        path = write_list(tmp_path / "list.txt", [f"{name} 1", f"{NAMES[0]} 2"])
        with pytest.raises(PrepareError, match=rf"{name}: .* nothing but images is stored"):
            made(path)
        assert list(made(path, on_error="skip").names) == [NAMES[0]]

    @pytest.mark.parametrize("link", ["file", "folder", "folders", "none"])
    def test_files_outside_of_the_lists_folder_are_refused(self, tmp_path: Path, link: str) -> None:
        """An own list may lead anywhere, so the error says how to allow it."""
        outside, inside = tmp_path / "private" / "deep", tmp_path / "list"
        outside.mkdir(parents=True)
        inside.mkdir()
        (outside / "key.jpg").write_bytes(image_bytes("a.jpg", 0))
        name = {"file": "a.jpg", "folder": "sub/key.jpg", "folders": "sub/deep/key.jpg"}.get(
            link, "../private/deep/key.jpg"
        )
        if link == "file":
            (inside / name).symlink_to(outside / "key.jpg")
        elif link != "none":
            (inside / "sub").symlink_to(outside if link == "folder" else outside.parent)
        for path in (name, f"{outside}/key.jpg", f"../list/{name}", f"{inside}/{name}"):
            listed = write_list(inside / "list.txt", [f"{path} 1"])
            with pytest.raises(NotPreparedError, match=r"line 1: it leads out of the list's directory.*--allow-paths"):
                made(listed)
            if path == name:
                assert "--allow-paths" in run("prepare", listed, cwd=tmp_path).stderr
                assert values(made(listed, allow_paths=True)) == [image_bytes("a.jpg", 0)]
                shutil.rmtree(listed.with_suffix(".records"))

    def test_links_and_absolute_paths_inside_of_the_folder_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "a.jpg").write_bytes(image_bytes("a.jpg", 0))
        (tmp_path / "link.jpg").symlink_to(tmp_path / "real" / "a.jpg")
        (tmp_path / "folder").symlink_to(tmp_path / "real")
        names = ["link.jpg", "folder/a.jpg", f"{tmp_path}/real/a.jpg", "real/../folder/../link.jpg"]
        assert len(made(write_list(tmp_path / "list.txt", [f"{name} 1" for name in names]))) == 4


class TestOrderOfWriting:
    def test_it_is_the_lists(self, images: dict[str, bytes], tmp_path: Path) -> None:
        reader = made(write_list(tmp_path / "list.txt", plain()), num_shards=4)
        assert written_order(reader) == list(NAMES)

    def test_shuffled_from_a_seed(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.csv", TABLE)
        readers = {seed: made(path, output=tmp_path / f"{seed}", shuffle_seed=seed, num_shards=3) for seed in (1, 2)}
        orders = {seed: written_order(reader) for seed, reader in readers.items()}
        for reader in readers.values():
            assert list(reader.names) == list(NAMES)
            assert values(reader) == list(images.values())
            assert reader.value("caption", 8) == f'{NAMES[8]}, "8"'
        assert sorted(orders[1]) == sorted(orders[2]) == sorted(NAMES)
        assert len({tuple(order) for order in (*orders.values(), NAMES)}) == 3
        # The same on every machine: SHA-256 of the seed and the path.
        assert orders[1] == FIRST_ORDER
        again = made(path, output=tmp_path / "again", shuffle_seed=1)
        assert written_order(again) == orders[1]

    def test_it_does_not_depend_on_the_order_of_the_list(self, images: dict[str, bytes], tmp_path: Path) -> None:
        backwards = write_list(tmp_path / "list.txt", plain()[::-1])
        assert written_order(made(backwards, shuffle_seed=1)) == FIRST_ORDER

    @pytest.mark.parametrize("num_shards", [1, 2, 5, 9])
    def test_exactly_so_many_shards(self, num_shards: int, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.csv", TABLE)
        reader = made(path, num_shards=num_shards)
        assert len(reader.manifest.shards) == num_shards
        assert values(reader) == list(images.values())

    def test_a_caption_lies_beside_its_image(self, images: dict[str, bytes], tmp_path: Path) -> None:
        reader = made(write_list(tmp_path / "list.csv", TWICE), shuffle_seed=3, num_shards=3)
        image, caption = reader.array("image.index"), reader.array("caption.index")
        assert image["shard"].tolist() == caption["shard"].tolist()
        distance = caption["slot"].astype(int) - image["slot"]
        assert distance.tolist() == [1] * len(NAMES) + [2]

    @pytest.mark.parametrize("seed", [1.5, "1"])
    def test_seeds_that_are_none(self, seed: object, tmp_path: Path) -> None:
        with pytest.raises(ArgumentError, match="shuffle_seed"):
            made(write_list(tmp_path / "list.txt", plain()), shuffle_seed=seed)


class TestMissingFiles:
    def test_all_are_named_at_once_before_anything_is_made(self, images: dict[str, bytes], tmp_path: Path) -> None:
        (tmp_path / "folder.jpg").mkdir()
        os.mkfifo(tmp_path / "fifo.jpg")
        unreadable = ["gone.jpg cat", "folder.jpg cat", f"{tmp_path}/gone too.jpg dog", "fifo.jpg dog", "gone.jpg x"]
        path = write_list(tmp_path / "list.txt", [*plain(), *unreadable])
        before = sorted(tmp_path.iterdir())
        with pytest.raises(NotPreparedError) as caught:
            made(path)
        assert str(caught.value) == (
            f"{path}: 4 of the 13 files that it names cannot be read: gone.jpg (line 10: No such file or directory); "
            f"folder.jpg (line 11: a directory); {tmp_path}/gone too.jpg (line 12: No such file or directory); "
            f"fifo.jpg (line 13: no regular file). Relative paths are relative to the list's directory, {tmp_path}. "
            "on_error='skip' (--on-error skip) leaves them out."
        )
        assert caught.value.num_missing == 4
        assert sorted(tmp_path.iterdir()) == before

    def test_the_first_of_many(self, tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.csv", ["path,label", *(f"{number}.jpg,1" for number in range(30))])
        with pytest.raises(NotPreparedError, match=r"30 of the 30 .* 19\.jpg \(line 21: [^;]*\); and 10 more\."):
            made(path)

    def test_one_that_may_not_be_read(self, images: dict[str, bytes], tmp_path: Path) -> None:
        """Root may read everything, so somebody else asks."""
        path = write_list(tmp_path / "list.txt", plain())
        (tmp_path / NAMES[1]).chmod(0)
        tmp_path.chmod(0o755)
        result = as_nobody(tmp_path, UNREADABLE, path)
        assert "NotPreparedError" in result
        assert "1 of the 9 files that it names cannot be read: a.jpg (line 2: Permission denied)" in result

    @pytest.mark.parametrize("changed", ["file", "list"])
    def test_what_changes_meanwhile(self, changed: str, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())

        class Meddler(ListRecipe):
            def extract(self, member: Member) -> Iterator[Blob]:
                if changed == "file":
                    os.utime(tmp_path / NAMES[0], ns=(1, 1))
                else:
                    write_list(path, plain(labels=LABELS[::-1]))
                return super().extract(member)

        with pytest.raises(SourceError, match=r"list\.txt changed while it was converted"):
            ensure(Meddler(), path, prepare=True, workers=1)
        assert not (tmp_path / "list.records").exists()


UNREADABLE = """
import os, sys
from pathlib import Path
from recordzoo.own.lists import ListRecipe
from tests.users import become
if os.getuid() == 0:
    become(65534, 65534)
ListRecipe().find(Path(sys.argv[1])).units(1)
"""


def as_nobody(folder: Path, script: str, *arguments: object) -> str:
    """Run a script that becomes a user who owns nothing; returns what it said on stderr."""
    for parent in folder.parents:
        if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return python("-c", script, *arguments, cwd=folder).stderr


class TestAgain:
    def test_nothing_is_done_and_nothing_said(
        self, images: dict[str, bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = write_list(tmp_path / "list.csv", TWICE)
        before = made(path, shuffle_seed=3, num_shards=2).path.stat().st_ino
        caplog.clear()
        for options in ({}, {"shuffle_seed": 3}, {"num_shards": 2}):
            assert made(path, **options).path.stat().st_ino == before
        write_list(path, ["", *TWICE])
        assert made(path).path.stat().st_ino == before
        assert caplog.records == []

    def test_images_that_are_gone_are_no_matter(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        made(path)
        for name in NAMES:
            (tmp_path / name).unlink()
        assert values(made(path)) == list(images.values())

    def test_another_list(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        output = made(path, output=tmp_path / "my.records").path
        other = write_list(tmp_path / "other.txt", plain()[1:])
        with pytest.raises(OtherSourceError) as caught:
            made(other, output=output)
        assert str(caught.value) == (
            f"{output} was made from {path}, which is not what {other} says. Pass --refresh (refresh=True) to "
            "rebuild it, or another --output."
        )
        assert len(RecordReader(output)) == len(NAMES)
        assert list(made(other, output=output, refresh=True).names) == list(NAMES[1:])

    def test_a_list_that_has_changed(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        made(path)
        write_list(path, plain(labels=LABELS[::-1]))
        with pytest.raises(OtherSourceError, match=r"was made from .*list\.txt, which has changed since"):
            made(path)
        assert made(path, refresh=True).array("target").tolist() == [2, 1, 1, 2, 1, 0, 2, 1, 2]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"shuffle_seed": 4}, "with shuffle_seed (--shuffle) 3, not with shuffle_seed (--shuffle) 4."),
            ({"num_shards": 3}, "with num_shards (--shards) 2, not with num_shards (--shards) 3."),
            (
                {"shard_bytes": 1 << 20},
                "without shard_bytes (--shard-size), not with shard_bytes (--shard-size) 1048576 (1.05 MB).",
            ),
        ],
    )
    def test_another_way_of_writing(
        self, options: dict[str, int], said: str, images: dict[str, bytes], tmp_path: Path
    ) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        made(path, shuffle_seed=3, num_shards=2)
        with pytest.raises(OtherSourceError, match=f"was written {re.escape(said)}"):
            made(path, **options)

    @pytest.mark.parametrize("change", ["size", "content"])
    def test_another_image_of_the_same_name(self, change: str, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        made(path)
        data = images[NAMES[0]]
        (tmp_path / NAMES[0]).write_bytes(data + b"x" if change == "size" else data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(OtherSourceError, match=r"is out of date: in .*, pictures/b 2\.png"):
            made(path)
        assert made(path, refresh=True).read("image", 0) != data

    def test_the_same_list_in_another_directory_means_other_files(self, tmp_path: Path) -> None:
        for folder, seed in (("one", 1), ("two", 2)):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "a.png").write_bytes(image_bytes("a.png", seed))
            write_list(tmp_path / folder / "list.txt", ["a.png 1"])
        output = made(tmp_path / "one" / "list.txt", output=tmp_path / "my.records").path
        with pytest.raises(OtherSourceError, match=r"is out of date: in .*, a\.png"):
            made(tmp_path / "two" / "list.txt", output=output)

    def test_records_of_something_else(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        simple.write(tmp_path, "tree")
        place = ensure(SimpleRecipe("tree"), tmp_path)
        with pytest.raises(OtherSourceError, match=r"is a record set of simple, not of the list .*list\.txt"):
            made(path, output=place)

    @pytest.mark.parametrize("content", [None, b"", b"[]", b'{"list": 3}', b"\xff", b"[" * 100_000])
    def test_the_file_beside_it_only_helps(
        self, content: bytes | None, images: dict[str, bytes], tmp_path: Path
    ) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        reader = made(path)
        (reader.path / LIST_FILE).unlink()
        if content is not None:
            (reader.path / LIST_FILE).write_bytes(content)
        made(path)
        assert files_folder(reader, "here") == "here"
        write_list(path, plain()[1:])
        with pytest.raises(OtherSourceError, match="was made from another list, which is not what"):
            made(path)


class TestAsADataset:
    def test_samples_are_the_lists_lines(self, images: dict[str, bytes], tmp_path: Path) -> None:
        reader = made(write_list(tmp_path / "list.txt", plain()))
        dataset = ImageFolderRecord(reader.path)
        assert dataset.classes == ["Zebra", "cat", "dog"]
        assert [label for _, label in dataset.samples] == [dataset.class_to_idx[label] for label in LABELS]
        for (path, label), name, (image, target) in zip(dataset.samples, NAMES, dataset, strict=True):
            assert path == f"{tmp_path}/{name}"
            assert image.tobytes() == Image.open(path).convert("RGB").tobytes()
            assert target == label

    def test_a_loader_finds_any_of_its_paths(self, images: dict[str, bytes], tmp_path: Path) -> None:
        lines = [*plain(), f"{tmp_path}/{NAMES[2]} cat", f"{NAMES[4]} cat"]
        dataset = ImageFolderRecord(made(write_list(tmp_path / "list.txt", lines)).path)
        for name in NAMES:
            (tmp_path / name).unlink()
        loader = dataset.loader
        assert isinstance(loader, PathLoader)
        assert [loader.find(path) for path, _ in dataset.samples] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 4]
        # An absolute path inside the list's directory is the file of the relative one.
        for position, (path, _) in enumerate(dataset.samples):
            assert loader(path).tobytes() == dataset[position][0].tobytes()
        assert loader.find(str(tmp_path / "nothing.jpg")) is None
        assert loader.find("/nothing.jpg") is None
        assert loader.find(3) is None
        assert pickle.loads(pickle.dumps(loader)).find(dataset.samples[3][0]) == 3
        assert len(pickle.dumps(loader)) < 600

    def test_a_loader_of_ones_own_gets_the_stored_bytes(self, images: dict[str, bytes], tmp_path: Path) -> None:
        """A list's names may lead anywhere, and a record set may be a stranger's: no file outside is opened for it."""
        lines = [f"{tmp_path}/{name} 1" for name in NAMES]
        seen: list[tuple[str, bytes]] = []
        dataset = ImageFolderRecord(
            made(write_list(tmp_path / "list.txt", lines)).path,
            loader=lambda path: seen.append((os.path.basename(path), Path(path).read_bytes())),
        )
        for name in NAMES:
            (tmp_path / name).write_bytes(b"changed")
        for position in range(len(NAMES)):
            assert dataset[position] == (None, 1)
        assert seen == [(os.path.basename(name), images[name]) for name in NAMES]

    def test_workers_of_a_data_loader(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.csv", TWICE)
        dataset = ImageFolderRecord(made(path, shuffle_seed=1, num_shards=2).path, transform=np.array)
        batches = list(DataLoader(dataset, batch_size=None, num_workers=2))
        assert [np.asarray(image).tobytes() for image, _ in batches] == [
            Image.open(tmp_path / name).convert("RGB").tobytes() for name in (*NAMES, NAMES[1])
        ]
        assert [int(target) for _, target in batches] == dataset.targets

    def test_the_list_is_on_another_machine(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "there" / "list.txt", [f"../{name} 1" for name in NAMES])
        moved = made(path, allow_paths=True).path.rename(tmp_path / "my.records")
        shutil.rmtree(tmp_path / "there")
        dataset = ImageFolderRecord(moved)
        assert dataset.samples[0] == (f"{moved}/../{NAMES[0]}", 1)
        assert dataset.loader(dataset.samples[0][0]).tobytes() == dataset[0][0].tobytes()
        assert dataset.loader.find(dataset.samples[8][0]) == 8

    def test_only_lists_are_where_their_file_says(self, tmp_path: Path) -> None:
        simple.write(tmp_path, "tree")
        reader = RecordReader(ensure(SimpleRecipe("tree"), tmp_path))
        (reader.path / LIST_FILE).write_text(json.dumps({"root": "/", "list": "/list.txt"}))
        assert files_folder(reader, "here") == "here"


class TestCommandLine:
    @pytest.mark.slow
    def test_prepare(self, images: dict[str, bytes], tmp_path: Path) -> None:
        write_list(tmp_path / "list.txt", plain())
        planned = run("prepare", "list.txt", "--output", "my.records", "--dry-run", cwd=tmp_path)
        assert (planned.returncode, planned.stdout[:34]) == (0, "list.txt: converts " + str(tmp_path)[:15])
        assert not (tmp_path / "my.records").exists()
        command = ["prepare", "list.txt", "--output", "my.records", "--shards", 2, "--shuffle", 1]
        done = run(*command, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.splitlines()[-1].startswith(f"list.txt: ready, 9 records in {tmp_path}/my.records, made in")
        reader = RecordReader(tmp_path / "my.records")
        assert (len(reader.manifest.shards), written_order(reader)) == (2, FIRST_ORDER)
        again = run(*command, "--json", cwd=tmp_path)
        assert json.loads(again.stdout)["record_sets"][0] == {
            "name": "list.txt",
            "read_as": "list",
            "path": f"{tmp_path}/my.records",
            "records": 9,
            "was_ready": True,
            "elapsed_s": pytest.approx(0, abs=60),
            "warning": None,
        }
        assert "my.records: ok" in run("verify", "--full", "my.records", cwd=tmp_path).stdout

    def test_its_errors(self, images: dict[str, bytes], tmp_path: Path) -> None:
        write_list(tmp_path / "list.txt", plain())
        write_list(tmp_path / "gone.txt", ["gone.jpg 1"])
        write_list(tmp_path / "bad.csv", ["a.jpg,1"])
        made(tmp_path / "list.txt")
        write_list(tmp_path / "list.txt", plain()[1:])
        (tmp_path / "tree" / "class").mkdir(parents=True)
        (tmp_path / "list.lst").write_text("a.jpg 1")
        for arguments, code, said in (
            (["gone.txt"], 3, "gone.jpg (line 1: No such file or directory)"),
            (["gone.txt", "--dry-run"], 3, "gone.jpg (line 1: No such file or directory)"),
            (["bad.csv"], 1, "line 1: the first line must name the columns"),
            (["bad.csv", "--dry-run"], 1, "line 1: the first line must name the columns"),
            (["nothing.txt"], 3, "nothing.txt does not exist. Give a directory with one folder for each class, a list"),
            (["list.lst"], 3, "list.lst is of no known format. Known are: a directory with one folder for each class"),
            (["list.txt", "tree", "--output", "a.records"], 2, "--output names one record set, but 2"),
            (["list.txt"], 1, "list.txt, which has changed since"),
            (["list.txt", "--dry-run"], 1, "list.txt, which has changed since"),
            (["list.txt", "--split", "train"], 2, "list.txt has no splits. --split is for datasets, and for dire"),
            (["list.txt", "--refresh", "--shards", "2", "--shard-size", "1M"], 2, "--shard-size and --shards"),
            (["list.txt", "--refresh", "--shard-size", "1 meter"], 2, "--shard-size '1 meter' is no size"),
            (["list.txt", "--refresh", "--shards", "9"], 2, "list.txt has only 8 files"),
            (["tree", "--shuffle", "3"], 2, "(--shuffle) is for lists of files; tree is none"),
        ):
            result = run("prepare", *arguments, cwd=tmp_path)
            assert (result.returncode, result.stdout) == (code, "")
            lines = [line for line in result.stderr.splitlines() if ": images from " not in line]
            assert (said in result.stderr, len(lines)) == (True, 1), result.stderr
        assert run("prepare", "list.txt", "--refresh", cwd=tmp_path).returncode == 0

    @pytest.mark.parametrize(
        ("text", "size"),
        [("1", 1), ("512M", 512 << 20), ("1.5k", 1536), ("2 GiB", 2 << 30), ("3mb", 3_000_000), ("10B", 10)],
    )
    def test_sizes(self, text: str, size: int) -> None:
        assert parse_bytes("--shard-size", text) == size

    @pytest.mark.parametrize("text", ["", "0", "M", "-1M", "1X", "1e3", "0.1", "1 M B", "nan"])
    def test_what_is_no_size(self, text: str) -> None:
        with pytest.raises(ArgumentError, match="--shard-size"):
            parse_bytes("--shard-size", text)


def test_what_would_be_done(images: dict[str, bytes], tmp_path: Path) -> None:
    path = write_list(tmp_path / "list.csv", TWICE)
    plan = Preparation(ListRecipe(), path, Options()).outlook()
    captions = sum(len(json.dumps(line, ensure_ascii=False).encode()) for line in captions_of(TWICE))
    assert plan.raw_bytes == sum(map(len, images.values())) + captions
    assert (plan.state, plan.preparation.target, plan.source) == ("convert", tmp_path / "list.records", str(path))


def captions_of(lines: list[str]) -> list[str]:
    return [line.split(",", 5)[5][1:-1].replace('""', '"') for line in lines[1:]]
