"""Record sets of lists: the list's order, whatever the order of writing; what is refused, resumed and made anew."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from recordzoo import ImageFolderRecord
from recordzoo.cli.options import parse_bytes
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError, PrepareError, SourceError
from recordzoo.own.lists import ListRecipe
from recordzoo.preparing.preparation import ensure
from recordzoo.raw.member import Member
from recordzoo.recipes.recipe import Blob
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from recordzoo.records.writer import LIST_FILE
from tests.fakes.folder import image_bytes, write_tree
from tests.fakes.lists import LABELS, NAMES, plain, write_images, write_list
from tests.preparing import prepared
from tests.running import run

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
        assert reader.array("image.index")[1] == reader.array("image.index")[-1]  # listed twice, stored once
        assert reader.array("target").tolist() == [*(number % 3 for number in range(len(NAMES))), 2]
        assert reader.manifest.classes == ("a", "b", "c")
        assert reader.split("val").tolist() == [0, 2, 4, 6, 8]
        assert reader.split("train").tolist() == [1, 3, 5, 7, 9]
        assert reader.array("weight").tolist() == [*(number / 4 for number in range(len(NAMES))), 9.5]
        captions = [reader.value("caption", position) for position in range(len(reader))]
        assert captions == [*(f'{name}, "{number}"' for number, name in enumerate(NAMES)), "the same picture"]
        assert (reader.manifest.dataset, reader.manifest.source) == ("list", "list")
        assert verify(reader.path, full=True).problems == []

    def test_labels_with_fractions_are_numbers(self, images: dict[str, bytes], tmp_path: Path) -> None:
        for one, other, kind in (("8.44", "7", "float"), ("1", "2", "class"), ("cat", "8.44", "class")):
            labels = [one, *[other] * (len(NAMES) - 1)]
            reader = made(write_list(tmp_path / "list.txt", plain(labels=labels)), refresh=True)
            assert reader.manifest.fields["target"].kind == kind
            if kind == "float":
                assert reader.array("target").tolist() == [float(np.float32(label)) for label in labels]

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
        with pytest.raises(PrepareError, match=r"a\.jpg: no image format"):
            made(path, output=tmp_path / "raise", on_error="raise")

    @pytest.mark.parametrize("name", ["id_rsa", "picture.jpg", "empty.png"])
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
        write_tree(outside, {"key.jpg": image_bytes("a.jpg", 0)})
        inside.mkdir()
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
        write_tree(tmp_path, {"real/a.jpg": image_bytes("a.jpg", 0)})
        (tmp_path / "link.jpg").symlink_to(tmp_path / "real" / "a.jpg")
        (tmp_path / "folder").symlink_to(tmp_path / "real")
        names = ["link.jpg", "folder/a.jpg", f"{tmp_path}/real/a.jpg", "real/../folder/../link.jpg"]
        assert len(made(write_list(tmp_path / "list.txt", [f"{name} 1" for name in names]))) == 4


class TestOrderOfWriting:
    def test_shuffled_from_a_seed(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.csv", TABLE)
        orders = {}
        for seed in (None, 1, 2):
            options = {} if seed is None else {"shuffle_seed": seed}
            reader = made(path, output=tmp_path / f"{seed}", num_shards=3, workers=2, **options)
            assert list(reader.names) == list(NAMES)
            assert values(reader) == list(images.values())
            assert reader.value("caption", 8) == f'{NAMES[8]}, "8"'
            orders[seed] = written_order(reader)
        assert sorted(orders[2]) == sorted(NAMES)
        assert orders[2] not in (orders[1], orders[None])
        assert orders[None] == list(NAMES)
        # The same on every machine, whatever the order of the list: SHA-256 of the seed and the path.
        backwards = write_list(tmp_path / "list.txt", plain()[::-1])
        assert written_order(made(backwards, shuffle_seed=1)) == orders[1] == FIRST_ORDER

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
        assert (
            f"gone.jpg (line 10: No such file or directory), folder.jpg (line 11: a directory), {tmp_path}/gone too.jpg"
            " (line 12: No such file or directory), fifo.jpg (line 13: no regular file)."
        ) in str(caught.value)
        assert caught.value.num_missing == 4
        assert sorted(tmp_path.iterdir()) == before

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
        for name in NAMES:
            (tmp_path / name).unlink()
        assert made(path).path.stat().st_ino == before
        assert caplog.records == []

    def test_another_list(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        output = made(path, output=tmp_path / "my.records").path
        other = write_list(tmp_path / "other.txt", plain()[1:])
        with pytest.raises(OtherSourceError, match=rf"made from another list than {other}, .* Pass --refresh"):
            made(other, output=output)
        tree = ImageFolderRecord(write_tree(tmp_path / "tree")).records_path
        with pytest.raises(OtherSourceError, match=r"is a record set of .*, not of the list .*list\.txt"):
            made(path, output=tree)
        assert len(RecordReader(output)) == len(NAMES)
        assert list(made(other, output=output, refresh=True).names) == list(NAMES[1:])

    def test_a_list_that_has_changed(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        made(path)
        write_list(path, plain(labels=LABELS[::-1]))
        with pytest.raises(OtherSourceError, match=r"another list than .*list\.txt, or that has changed since"):
            made(path)
        assert made(path, refresh=True).array("target").tolist() == [2, 1, 1, 2, 1, 0, 2, 1, 2]

    def test_another_way_of_writing(self, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        made(path, shuffle_seed=3, num_shards=2)
        with pytest.raises(OtherSourceError, match=r"was written with shuffle_seed 3, not 4\."):
            made(path, shuffle_seed=4)
        with pytest.raises(OtherSourceError, match=r"was written with shard_bytes None, not 10"):
            made(path, shard_bytes=1 << 20)

    @pytest.mark.parametrize("change", ["size", "content"])
    def test_another_image_of_the_same_name(self, change: str, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        made(path)
        data = images[NAMES[0]]
        (tmp_path / NAMES[0]).write_bytes(data + b"x" if change == "size" else data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(OtherSourceError, match=r"is out of date: in .*, pictures/b 2\.png"):
            made(path)
        assert made(path, refresh=True).read("image", 0) != data

    @pytest.mark.parametrize("content", [b'{"list": 3}', b"\xff", b"[" * 100_000])
    def test_the_file_beside_it_only_helps(self, content: bytes, images: dict[str, bytes], tmp_path: Path) -> None:
        path = write_list(tmp_path / "list.txt", plain())
        (made(path).path / LIST_FILE).write_bytes(content)
        assert len(ImageFolderRecord(made(path).path)) == len(NAMES)
        write_list(path, plain()[1:])
        with pytest.raises(OtherSourceError, match="was made from another list than"):
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

    def test_the_list_is_on_another_machine(self, images: dict[str, bytes], tmp_path: Path) -> None:
        lines = [*(f"../{name} 1" for name in NAMES), f"{tmp_path}/{NAMES[0]} 1", f"{tmp_path}/there/x.jpg 1"]
        path = write_list(tmp_path / "there" / "list.txt", lines)
        shutil.copy(tmp_path / NAMES[0], path.with_name("x.jpg"))
        inside = ImageFolderRecord(made(path, allow_paths=True).path)
        path.with_name("x.jpg").unlink()
        assert inside.loader(inside.samples[10][0]).tobytes() == inside[10][0].tobytes()
        moved = made(path, allow_paths=True).path.rename(tmp_path / "my.records")
        shutil.rmtree(tmp_path / "there")
        dataset = ImageFolderRecord(moved)
        assert dataset.samples[0] == (f"{moved}/../{NAMES[0]}", 1)
        (tmp_path / NAMES[0]).unlink()
        for position in (8, 9):
            assert dataset.loader(dataset.samples[position][0]).tobytes() == dataset[position][0].tobytes()


class TestCommandLine:
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
            (["bad.csv", "--dry-run"], 1, "line 1: the first line must name the columns"),
            (["nothing.txt"], 3, "nothing.txt does not exist."),
            (["list.lst"], 3, "list.lst is of no known format."),
            (["list.txt", "tree", "--output", "a.records"], 2, "--output names one record set, but 2"),
            (["list.txt", "--dry-run"], 1, "list.txt, or that has changed since"),
            (["list.txt", "--split", "train"], 2, "list.txt has no splits."),
            (["list.txt", "--refresh", "--shard-size", "1 meter"], 2, "--shard-size '1 meter' is no size"),
            (["tree", "--shuffle", "3"], 2, "(--shuffle) is for lists of files; tree is none"),
        ):
            result = run("prepare", *arguments, cwd=tmp_path)
            assert (result.returncode, result.stdout) == (code, "")
            lines = [line for line in result.stderr.splitlines() if ": images from " not in line]
            assert (said in result.stderr, len(lines)) == (True, 1), result.stderr
        assert run("prepare", "list.txt", "--refresh", cwd=tmp_path).returncode == 0

    def test_sizes(self) -> None:
        sizes = {"1": 1, "512M": 512 << 20, "1.5k": 1536, "2 GiB": 2 << 30, "3mb": 3_000_000, "10B": 10}
        assert {text: parse_bytes("--shard-size", text) for text in sizes} == sizes
        for text in ("", "0", "-1M", "1X", "0.1", "nan"):
            with pytest.raises(ArgumentError, match="--shard-size"):
                parse_bytes("--shard-size", text)
