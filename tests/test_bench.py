"""`recordzoo bench`: what is run, what the numbers are made of, and what is said of mistakes. No time is tested."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from benchmarks.peers import page
from recordzoo import RecordLoader, zoo
from recordzoo.bench import compare as comparison
from recordzoo.bench.chart import Group, draw_chart, write_chart
from recordzoo.bench.compare import compare, compare_speeds, comparisons, turns
from recordzoo.bench.loaders import Images
from recordzoo.bench.measure import Measurement, in_fresh_process, measure, medians
from recordzoo.bench.task import EXACT, FAST, FILES, STOCK, Result, Task
from recordzoo.bench.transform import DEFAULT, load_transform
from recordzoo.cli.bench import doubts, find_task, table
from recordzoo.errors import ArgumentError
from recordzoo.preparing import ensure
from recordzoo.recipes.folder import recipe
from recordzoo.records.reader import RecordReader
from recordzoo.system.usage import cpu_seconds, memory_bytes
from tests.fakes import folder, voc
from tests.fakes.annotations import cityscapes
from tests.fakes.coco import coco
from tests.running import run

NUM_IMAGES = len([name for name in folder.FILES if name != "cat/notes.txt"])
OWN_TRANSFORM = """
from torchvision import transforms as T

crop = T.Compose([T.Resize((8, 8)), T.ToTensor()])
number = 3

def fails(image):
    raise KeyError("no such colour")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A tree with its records beside it, and a person's own transforms."""
    place = tmp_path_factory.mktemp("bench")
    folder.write_tree(place / "photos")
    ensure(recipe(), place / "photos", prepare=True)
    (place / "own.py").write_text(OWN_TRANSFORM)
    return place / "photos"


def quick(path, *options, cwd):
    """Measure each loader once on as little as can be, without worker processes."""
    return run("bench", path, "--repeats", 1, "--workers", 0, *options, cwd=cwd)


def a_measurement(images_per_s, **numbers):
    return Measurement(images_per_s, **{"first_epoch_images_per_s": 5.0, "first_batch_s": 0.25, **numbers})


@pytest.mark.slow
class TestCommand:
    def test_all_loaders_run_on_a_tree_with_records(self, tree, tmp_path):
        result = quick(tree, "--json", "--output", tmp_path / "chart.png", "--batch-size", 4, cwd=tree.parent)
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)["bench"]
        assert (found["records"], found["tree"]) == (f"{tree}.records", str(tree))
        assert (found["num_images"], found["batch_size"], found["workers"]) == (NUM_IMAGES, 4, 0)
        assert [each["name"] for each in found["loaders"]] == [FILES, STOCK, EXACT, FAST]
        for each in found["loaders"]:
            assert each["problem"] is None
            assert each["runs"] == [each["median"]]
            assert all(value > 0 for value in each["median"].values() if value is not None)
            speeds = each["median"]["images_per_s"], found["loaders"][0]["median"]["images_per_s"]
            assert each["ratio"] == speeds[0] / speeds[1]
            assert each["ratio_range"] == [each["ratio"]] * 2
            assert each["images_per_s_range"] == [speeds[0]] * 2
            assert each["verdict"] == ("first" if each["name"] == FILES else "too few rounds")
        with Image.open(tmp_path / "chart.png") as chart:
            assert chart.format == "PNG"
            assert {(13, 148, 136), (139, 143, 152)} <= {colour for _, colour in chart.convert("RGB").getcolors()}

    def test_a_transform_that_fails_is_told_for_each_loader(self, tree):
        result = quick(f"{tree}.records", "--transform", "own.py:fails", "--images", 5, cwd=tree.parent)
        assert result.returncode == 1
        assert "5 images, batches of 64, 0 workers, medians of 1" in result.stdout
        assert "transform: own.py:fails" in result.stdout
        for loader in (FILES, STOCK, EXACT, FAST):
            assert f"{loader} did not run: KeyError: 'no such colour'" in result.stdout


class TestTransform:
    def test_a_person_s_own_is_what_is_run(self, tree, monkeypatch):
        monkeypatch.chdir(tree.parent)
        monkeypatch.setattr(sys, "path", list(sys.path))
        assert load_transform("own.py:crop")(Image.new("RGB", (30, 20))).shape == (3, 8, 8)
        assert load_transform("own:crop")(Image.new("RGB", (30, 20))).shape == (3, 8, 8)

    def test_without_one_it_is_the_usual(self):
        found = [type(step).__name__ for step in load_transform(None).transforms]
        assert found == [name.partition("(")[0] for name in DEFAULT.split(", ")]

    @pytest.mark.parametrize(
        ("transform", "said"),
        [
            ("own.py", "--transform own.py names no transform; write MODULE:NAME or FILE.py:NAME."),
            ("own.py:squash", "there is no 'squash' in own.py"),
            ("own.py:number", "'number' is of type int, which cannot be called"),
            ("nowhere:crop", "nowhere cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ],
    )
    def test_a_transform_that_is_none(self, tree, transform, said, monkeypatch):
        monkeypatch.chdir(tree.parent)
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(ArgumentError, match=said):
            load_transform(transform)


class TestTask:
    def test_the_tree_is_found_from_its_records(self, tree):
        found = find_task(f"{tree}.records", num_images=500, split=None)
        assert found.tree == tree
        assert found.loaders == [FILES, STOCK, EXACT, FAST]
        assert found.num_images == NUM_IMAGES

    def test_a_tree_that_is_gone_is_left_out(self, tree, tmp_path):
        ensure(recipe(), folder.write_tree(tmp_path / "gone"), prepare=True)
        (tmp_path / "gone").rename(tmp_path / "elsewhere")
        assert find_task(str(tmp_path / "gone.records"), num_images=3, split=None).loaders == [STOCK, EXACT, FAST]


class TestNumbers:
    def test_the_first_epoch_is_not_counted(self):
        epochs = []

        class Loader:
            def __iter__(self):
                epochs.append("begun")
                yield from range(3)
                epochs.append("ended")

        found = measure(Loader, num_images=12, at_least_s=0)
        assert epochs == ["begun", "ended"] * 2
        assert found.images_per_s > 0
        assert found.first_epoch_images_per_s > 0

    def test_medians_are_of_each_number(self):
        runs = [a_measurement(10.0, cpu_ms=9.0), a_measurement(30.0, cpu_ms=1.0), a_measurement(20.0, cpu_ms=2.0)]
        assert medians(runs) == a_measurement(20.0, cpu_ms=2.0)
        assert medians([*runs, a_measurement(40.0)]).cpu_ms is None

    def test_ratios_are_to_the_first_that_ran(self):
        results = [
            Result(FILES, problem="it broke"),
            Result(STOCK, [a_measurement(200.0)]),
            Result(FAST, [a_measurement(500.0)]),
        ]
        found = comparisons(results)
        assert [each and each.ratio for each in found] == [None, 1.0, 2.5]
        assert [each and each.verdict for each in found] == [None, "first", "too few rounds"]
        assert comparisons(results[:1]) == [None]

    def test_rounds_are_compared_with_each_other(self):
        # The machine slows down by half: each round tells the same.
        found = compare_speeds([200.0, 150.0, 100.0], [100.0, 75.0, 50.0])
        assert (found.ratio, found.low, found.high, found.verdict) == (2.0, 2.0, 2.0, "faster")

    @pytest.mark.parametrize(
        ("speeds", "verdict"),
        [
            ([130.0, 110.0, 101.0, 190.0, 120.0], "faster"),
            ([99.0, 70.0, 80.0, 98.0, 90.0], "slower"),
            ([103.0, 99.0, 98.0, 101.0, 100.0], "the same"),
            ([65.0, 120.0, 90.0, 70.0, 110.0], "too noisy"),
            ([300.0, 310.0], "too few rounds"),
        ],
    )
    def test_the_verdict(self, speeds, verdict):
        assert compare_speeds(speeds, [100.0] * 5).verdict == verdict

    def test_the_table_shows_them(self):
        results = [
            Result(
                FILES, [a_measurement(speed, cpu_ms=2.5, memory_bytes=3_000_000.0) for speed in (900, 1234.4, 2000)]
            ),
            Result(STOCK, [a_measurement(speed) for speed in (1000, 1000, 3000)]),
            Result(FAST, problem="it broke"),
        ]
        text = table(results)
        assert max(map(len, text.splitlines())) <= 80
        head, first, second, broken, _, _, others, *_ = text.splitlines()
        assert head.split() == ["LOADER", "IMAGES/S", "FROM-TO", "RATIO", "FROM-TO", "VERDICT"]
        assert first.removeprefix(FILES).split() == ["1,234", "900-2,000", "1.00x"]
        assert second.removeprefix(STOCK).split() == ["1,000", "1,000-3,000", "1.11x", "0.81-1.50", "too", "noisy"]
        assert broken.removeprefix(FAST).split() == ["did", "not", "run"]
        assert others.removeprefix(FILES).split() == ["5", "0.25", "s", "2.50", "ms", "3", "MB"]

    def test_every_second_round_goes_backwards(self):
        found = list(turns([STOCK, EXACT, FAST], 3))
        assert [number for number, _ in found] == [0] * 3 + [1] * 3 + [2] * 3
        assert [loader for _, loader in found] == [STOCK, EXACT, FAST, FAST, EXACT, STOCK, STOCK, EXACT, FAST]

    def test_loaders_are_measured_in_turn(self, monkeypatch):
        asked = []

        def measured(_, loader, given):
            asked.append(loader)
            if loader == EXACT:
                raise KeyError("no such colour")
            return a_measurement(100 * len(asked))

        monkeypatch.setattr(comparison, "in_fresh_process", measured)
        told = []
        results = compare(Task(Path("x.records")), 3, told.append)
        assert asked == [STOCK, EXACT, FAST, FAST, STOCK, STOCK, FAST]
        assert [[run.images_per_s for run in result.runs] for result in results] == [
            [100, 500, 600],
            [],
            [300, 400, 700],
        ]
        assert results[1].problem == "KeyError: 'no such colour'"
        assert told[:2] == [f"1/3 {STOCK}: 100 images/s", f"1/3 {EXACT}: KeyError: 'no such colour'"]
        assert len(told) == len(asked)

    def test_doubts_are_said_with_what_helps(self):
        def results(*speeds):
            first, second = ([a_measurement(speed) for speed in each] for each in speeds)
            return [Result(FILES, first), Result(STOCK, second)]

        noisy, advice = doubts(results([900, 1000, 2000], [1000, 1000, 1000]), 3)
        assert noisy.startswith(f"{STOCK}: too noisy to tell whether it is faster or slower: 0.50-1.11 times as fast")
        assert "--repeats 9 --images 2000" in advice
        assert doubts(results([100, 100], [200, 200]), 2) == [
            "Fewer than 3 rounds do not show how much the numbers vary: --repeats 5."
        ]
        assert doubts(results([100, 100, 100], [200, 210, 220]), 3) == []

    @pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
    def test_processes_below_count_too(self):
        before = cpu_seconds(), memory_bytes()
        code = "data = bytearray(b'x' * 400_000_000); sum(range(5_000_000)); print(flush=True); input()"
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            # Pages of libraries count less as soon as another process, of the tests beside this one, has them too.
            assert memory_bytes() - before[1] > 200_000_000
            assert cpu_seconds() - before[0] >= 0.05
            child.communicate(b"\n")

    @pytest.mark.slow
    def test_a_fresh_process_starts_workers_as_this_one(self):
        import multiprocessing

        pid, method = in_fresh_process(_who_and_how)
        assert pid != os.getpid()
        assert method == multiprocessing.get_start_method()


def _who_and_how():
    import multiprocessing

    return os.getpid(), multiprocessing.get_start_method()


class TestChart:
    def test_bars_are_as_long_as_the_numbers(self, tmp_path):
        groups = [Group("one", [100.0, 50.0], "1.00x"), Group("two", [200.0, None], "2.00x", is_ours=True)]
        write_chart(tmp_path / "chart.png", draw_chart(groups, "Speed"))
        with Image.open(tmp_path / "chart.png") as chart:
            pixels = np.array(chart.convert("RGB"))
        others, pale, ours = (self._longest(pixels, c) for c in [(139, 143, 152), (207, 210, 216), (13, 148, 136)])
        assert ours == pytest.approx(2 * others, abs=2)
        assert others == pytest.approx(2 * pale, abs=2)
        assert self._longest(pixels, (153, 213, 207)) == 0

    @staticmethod
    def _longest(pixels, colour):
        return int((pixels == colour).all(axis=2).sum(axis=1).max())

    def test_nothing_to_draw_is_a_heading(self):
        assert draw_chart([], "Nothing ran").size[0] > 0

    def test_long_labels_are_cut(self):
        assert draw_chart([Group("x" * 1000, [1.0])], "y" * 1000).size[0] < 2000


class TestPeersPage:
    def test_ours_is_divided_by_each_of_the_others(self):
        row = {
            "ours": "ours",
            "contestants": [
                {"label": "ours", "median": {"images_per_s": 300.0}},
                {"label": "slower", "median": {"images_per_s": 200.0}},
                {"label": "broken", "problem": "ImportError: No module named 'broken'"},
            ],
        }
        assert page.ratios(row) == {"ours": 1.0, "slower": 1.5, "broken": None}
        assert page.ratios({**row, "ours": "broken"}) == {"ours": None, "slower": None, "broken": None}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    root = tmp_path_factory.mktemp("others")
    voc.build().write_tree(root / "voc")
    cityscapes.write_tree(root / "cityscapes")
    coco.write_archive(root / "coco")
    made = {"voc": "voc.2012", "cityscapes": "cityscapes.fine", "coco": "coco.val2017"}
    return {name: zoo.prepare(label, root / name, check_hash=False, workers=1)[0] for name, label in made.items()}


class TestOtherTargets:
    """Sets whose classes have no labels, or no "target" at all."""

    @pytest.mark.parametrize("name", ["voc", "cityscapes", "coco"])
    def test_their_images_are_measured(self, sets, name):
        reader = RecordReader(sets[name])
        dataset = Images(reader.path, lambda image: torch.tensor(image.size))
        assert 0 < len(dataset) <= len(reader)
        for loader in (DataLoader(dataset, 4), RecordLoader(dataset, 4, shuffle=False, num_workers=0)):
            sizes, targets = map(torch.cat, zip(*loader, strict=True))
            positions = dataset._selection.all_positions().tolist()
            stored = [Image.open(io.BytesIO(reader.read("image", position))).size for position in positions]
            assert sizes.tolist() == list(map(list, stored))
            assert set(targets.tolist()) == {0}

    def test_labels_stay_labels(self, tree):
        reader = RecordReader(Path(f"{tree}.records"))
        dataset = Images(reader.path, lambda image: 0)
        assert [target for _, target in dataset] == reader.array("target").tolist()

    def test_an_unknown_split_is_said_before_anything_runs(self, sets):
        with pytest.raises(ArgumentError, match=r"no split 'main-trian'; it has .*\. Did you mean main-train\?"):
            find_task(str(sets["voc"]), num_images=5, split="main-trian")
