"""`recordzoo show` and what it is made of: which images, what is drawn, and that names stay names."""

import io
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recordzoo.errors import ArgumentError
from recordzoo.preparing.preparation import ensure
from recordzoo.preview import BOX, Thumbnail, choose, draw_sheet, make_thumbnail
from recordzoo.recipes.declared import dataset_recipe
from recordzoo.recipes.recipe import quiet
from recordzoo.records.reader import RecordReader, load_labels
from tests.fakes import cifar as cifar10
from tests.fakes import cub200
from tests.fakes.fake import md5
from tests.fakes.odd_images import HOSTILE_NAMES, broken_images, odd_images
from tests.fakes.pictures import encoded
from tests.fakes.records import edit_manifest, flip, write_records
from tests.running import run

SMALL = encoded(Image.new("RGB", (20, 10), (200, 30, 30)), "PNG")


def show(*arguments, cwd):
    result = run("show", *arguments, "--json", cwd=cwd)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def write_set(path, images, *, classes=("things",), targets=None):
    """Write a record set of images by name; all of the first class by default."""
    return write_records(
        path,
        list(images.values()),
        names=list(images),
        arrays={"target": np.zeros(len(images), np.int64) if targets is None else np.array(targets)},
        classes=classes,
        encoding="image",
    )


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """CUB-200-2011 with 5 classes of 6 images."""
    root = tmp_path_factory.mktemp("birds")
    cub200.build(5, 6).write_tree(root)
    return Path(ensure(dataset_recipe("cub200"), root, prepare=True))


def pick(path, number, order="class", seed=0, split=None, classes=()):
    """Choose as the command does; returns the choice and the class of each image."""
    choice = choose(RecordReader(path), number, split=split, classes=classes, order=order, seed=seed)
    return choice, None if choice.labels is None else choice.labels.numbers[list(choice.positions)].tolist()


class TestChoice:
    @pytest.mark.parametrize(("number", "counts"), [(3, [1, 1, 1]), (5, [1] * 5), (12, [2, 2, 2, 3, 3]), (99, [6] * 5)])
    def test_classes_have_as_equal_a_part_as_they_can(self, birds, number, counts):
        choice, classes = pick(birds, number)
        assert sorted(np.unique(classes, return_counts=True)[1].tolist()) == counts
        assert len(set(choice.positions)) == len(choice.positions)
        assert classes == sorted(classes)
        assert choice.num_candidates == 30

    def test_a_small_class_leaves_its_part_to_the_others(self, tmp_path):
        images = {f"{i}.png": SMALL for i in range(10)}
        path = write_set(tmp_path / "s", images, targets=[0] + [1] * 9, classes=["a", "b", "c"])
        assert pick(path, 6)[1] == [0] + [1] * 5
        result = run("show", path, "--class", "c", cwd=tmp_path)
        assert (result.returncode, "no image in this split or of this class" in result.stderr) == (2, True)

    def test_orders_and_seeds(self, birds):
        for order in ("class", "random"):
            assert pick(birds, 7, order, seed=3)[0].positions == pick(birds, 7, order, seed=3)[0].positions
            assert pick(birds, 7, order, seed=3)[0].positions != pick(birds, 7, order, seed=4)[0].positions
        assert len({tuple(pick(birds, 2, seed=seed)[1]) for seed in range(10)}) > 3  # of classes, too
        assert sorted(pick(birds, 30, "random")[0].positions) == list(range(30))
        assert pick(birds, 30, "random")[0].positions[:7] == pick(birds, 7, "random")[0].positions
        lengths = RecordReader(birds).lengths("image").tolist()
        by_size = sorted(range(30), key=lambda position: (lengths[position], position))
        assert pick(birds, 4, "smallest")[0].positions == by_size[:4]
        assert [lengths[p] for p in pick(birds, 4, "largest")[0].positions] == sorted(lengths, reverse=True)[:4]

    def test_without_classes_evenly_from_first_to_last(self, tmp_path):
        path = write_records(tmp_path / "s", [SMALL] * 4 + [None] + [SMALL] * 5, arrays={}, encoding="image")
        choice, classes = pick(path, 3)
        assert (choice.positions, choice.num_candidates, classes) == ([0, 3, 7], 9, None)
        with pytest.raises(ArgumentError, match="no classes to choose from"):
            pick(path, 3, classes=["cat"])

    def test_split_and_class(self, birds):
        reader = RecordReader(birds)
        choice, classes = pick(birds, 99, split="test", classes=["1", "003.Sooty_Albatross"])
        assert set(classes) == {1, 2}
        wanted = np.isin(reader.array("target"), [1, 2])
        assert sorted(choice.positions) == sorted(p for p in reader.split("test").tolist() if wanted[p])
        with pytest.raises(ArgumentError, match=r"no split 'tset'; it has (test, train|train, test)"):
            pick(birds, 3, split="tset")
        with pytest.raises(ArgumentError, match=r"from 0 to 4\. Did you mean 002\.Laysan_Albatross\?"):
            pick(birds, 3, classes=["laysan"])
        for number in ("5", "-1"):
            with pytest.raises(ArgumentError, match=f"no class '{number}'"):
                pick(birds, 3, classes=[number])

    def test_a_class_may_have_synonyms(self, tmp_path):
        facts = {"classes": ["n1", "n2"], "metadata": {"synonyms": [["tench", "Tinca tinca"], ["crane"]]}}
        labels = load_labels(RecordReader(write_records(tmp_path / "s", [SMALL] * 2, **facts)))
        assert (labels.name(0), labels.find("crane"), labels.find("n1")) == ("n1 tench", [1], [0])


class TestThumbnails:
    def thumbnail(self, path, name, box=BOX, **options):
        reader = RecordReader(path)
        with quiet():
            return make_thumbnail(reader, "image", list(reader.names).index(f"odd/{name}"), box, **options)

    @pytest.mark.parametrize("name", odd_images())
    def test_every_odd_image_is_shown(self, odd, name):
        found = self.thumbnail(odd, name)
        original = Image.open(io.BytesIO(odd_images()[name]))
        assert (found.problem, found.reason) == ("", "")
        assert (found.size, found.mode, found.format) == (original.size, original.mode, original.format)
        assert found.image.mode == "RGB"
        assert max(found.image.size) <= 180
        if min(found.image.size) > 2:
            ratio = found.image.width / found.image.height
            assert ratio == pytest.approx(original.width / original.height, rel=0.05)

    def test_pixels(self, odd):
        turned = self.thumbnail(odd, "turned.jpg").image
        assert turned.size == (180, 120)  # as torchvision decodes it, which does not turn it
        assert self.thumbnail(odd, "dot.png").image.getcolors() == [(256, (255, 0, 0))]
        deep = np.asarray(self.thumbnail(odd, "sixteen-bit.png").image)
        assert (deep[0, 0, 0], deep[-1, -1, 0]) == (0, 255)
        assert np.asarray(self.thumbnail(odd, "float.tiff").image)[-1, -1, 0] == 0  # no number: as the darkest
        assert min(self.thumbnail(odd, "alpha.png").image.getpixel((90, 60))) > 200  # the middle is clear
        cmyk = np.asarray(self.thumbnail(odd, "cmyk.jpg").image, np.int16)
        plain = np.asarray(self.thumbnail(odd, "turned.jpg").image, np.int16)
        assert np.abs(cmyk - plain).mean() < 12  # not inverted

    def test_raw_pixels_are_enlarged_and_sharp(self, tmp_path):
        cifar10.build(2).write_tree(tmp_path)
        md5s = {name: md5(data) for name, data in cifar10.batches(2).items()}
        path = ensure(dataset_recipe("cifar10", member_md5s=md5s), tmp_path, prepare=True)
        reader = RecordReader(path)
        found = make_thumbnail(reader, "image", 5, BOX)
        assert (found.format, found.mode, found.size, found.image.size) == ("raw", "RGB", (32, 32), (160, 160))
        pixels = reader.value("image", 5).repeat(5, axis=0).repeat(5, axis=1)
        assert np.array_equal(np.asarray(found.image), pixels)


class TestSheet:
    def test_every_image_is_in_its_place(self, birds):
        reader = RecordReader(birds)
        thumbnails = [make_thumbnail(reader, "image", position, BOX) for position in range(5)]
        sheet = draw_sheet(thumbnails, "title")
        assert sheet.width == 2 * 24 + 3 * 180 + 2 * 16  # in two rows
        for number, thumbnail in enumerate(thumbnails):
            image = thumbnail.image
            left, top = 24 + number % 3 * 196, 78 + number // 3 * (180 + 2 * 18 + 16)
            left, top = left + (180 - image.width) // 2, top + (180 - image.height) // 2
            assert sheet.crop((left, top, left + image.width, top + image.height)).tobytes() == image.tobytes()

    @pytest.mark.parametrize("text", [*HOSTILE_NAMES, "", "x" * 70_000])
    def test_captions_stay_in_their_cell(self, text):
        thumbnail = Thumbnail(0, text, 5, text, label=0, class_name=text, image=Image.new("RGB", BOX, "blue"))
        sheet = draw_sheet([thumbnail, replace(thumbnail, image=None, reason=text)], text, text)
        pixels = np.asarray(sheet)
        assert (pixels[:, :20] == 255).all()  # margins
        assert (pixels[:, -20:] == 255).all()
        captions_top = np.flatnonzero((pixels[:, 24] == (0, 0, 255)).all(axis=1)).max() + 1
        assert (pixels[captions_top:, 24 + 182 : 24 + 194] == 255).all()  # the gap between the cells


class TestBroken:
    def test_what_cannot_be_shown_is_said(self, odd, tmp_path):
        result = run("show", odd, "--json", cwd=tmp_path, apart=True)
        reasons = {image["name"]: image["reason"] for image in json.loads(result.stdout)["images"] if image["problem"]}
        assert set(reasons) == {f"odd/{name}" for name in broken_images()}
        assert "no image that Pillow knows" in reasons["odd/nothing.jpg"]
        assert "image file is truncated" in reasons["odd/cut.jpg"]
        assert "it has over 178,956,970 pixels" in reasons["odd/bomb.png"]
        assert "12,000 x 9,000 pixels: too large to be shown" in reasons["odd/wide.png"]
        assert ", 4 cannot be decoded, 1 too large to be shown; " in result.stderr

    def test_a_damaged_record_is_a_crossed_box_and_code_5(self, tmp_path):
        path = write_set(tmp_path / "s.records", {"a.png": SMALL, "b.png": SMALL + b"tail"})
        shard = path / "shard-00000.lmdb"
        flip(shard, 8 * shard.read_bytes().index(b"tail"))
        result = run("show", path, "--json", cwd=tmp_path)
        assert result.returncode == 5
        assert [image["problem"] for image in json.loads(result.stdout)["images"]] == [None, "damaged"]
        assert f"is damaged. Run: recordzoo verify --full {path}" in result.stderr
        assert (tmp_path / "s.png").exists()


class TestCommand:
    def test_a_sheet_and_json_and_the_same_arguments_give_the_same_bytes(self, birds, tmp_path):
        words = (birds, "--order", "largest", "--number", "2", "--split", "train")
        result = run("show", *words, cwd=tmp_path, apart=True)
        assert (result.returncode, result.stdout) == (0, "")
        assert re.fullmatch(r"wrote cub200\.png: 2 images; [\d.]+ kB\n", result.stderr)
        assert [path.name for path in tmp_path.iterdir()] == ["cub200.png"]
        with Image.open(tmp_path / "cub200.png") as sheet:
            assert (sheet.mode, sheet.format) == ("RGB", "PNG")
            assert len(sheet.getcolors(1 << 20)) > 1000
        document = show(*words, "--output", "again.png", cwd=tmp_path)
        assert (tmp_path / "cub200.png").read_bytes() == (tmp_path / "again.png").read_bytes()
        reader = RecordReader(birds)
        facts = {"output": "again.png", "order": "largest", "of": len(reader.split("train")), "seed": 0}
        assert document.items() >= facts.items()
        for image in document["images"]:
            position = image["position"]
            data = reader.read("image", position)
            assert (image["name"], image["bytes"]) == (reader.names[position], len(data))
            assert image["size"] == list(Image.open(io.BytesIO(data)).size)
            assert image["class"] == reader.manifest.classes[image["target"]]

    def test_damage_has_its_code(self, tmp_path):
        path = write_set(tmp_path / "s.records", {"a.png": SMALL})
        flip(path / "target.npy", 8 * 130)
        result = run("show", path, cwd=tmp_path)
        assert (result.returncode, "target.npy is damaged" in result.stderr) == (5, True)
        edit_manifest(path, lambda document: document.update(version=99))
        assert run("show", path, cwd=tmp_path).returncode == 1
        (path / "manifest.json").write_bytes(zlib.compress(b"?"))
        assert run("show", path, cwd=tmp_path).returncode == 5
        (path / "manifest.json").unlink()
        assert run("show", path, cwd=tmp_path).returncode == 5
        assert not (tmp_path / "s.png").exists()

    def test_only_its_own_file_is_replaced(self, birds, tmp_path):
        (tmp_path / "cub200.png").write_bytes(SMALL)
        result = run("show", birds, cwd=tmp_path)
        assert (result.returncode, "was not made by `recordzoo show`" in result.stderr) == (2, True)
        assert (tmp_path / "cub200.png").read_bytes() == SMALL
        assert show(birds, "--output", "cub200.png", cwd=tmp_path)["output"] == "cub200.png"  # named: it is meant
        assert show(birds, "--number", "2", cwd=tmp_path)["output"] == "cub200.png"
