"""Every code block of every page runs as it is written: a page in one go, in an empty directory, as a reader would.

A block that makes a loader also gives a batch: a reader iterates it.

A block of Python that begins with a file's name, as in ``# train.py``, becomes that file instead, for what follows it.
A page may suppose some data of the reader's (`GIVEN`). Downloads come from a mirror on the loopback interface, which
has a small CUB-200-2011 of that name; so the catalogue that the page's programs read has its size and hash.
"""

import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from recordzoo import catalogue
from tests import test_foreign_indexed, test_foreign_sqlite, warm
from tests.combining import write_set
from tests.fakes import coloured, cub200, imagenet, legacy, lists
from tests.fakes.server import FileServer
from tests.test_docs import BLOCK, NOT_RUN, PAGES, ROOT, name_of

pytestmark = pytest.mark.slow

ELSEWHERE = ("pip ", "make ")
"""Lines that install recordzoo or need its sources: `make` is how these tests are run."""

DRIVER = """
import json, re, subprocess, sys
from tests.loaders import take_batches
with open(sys.argv[1]) as file:
    blocks = json.load(file)
taken = []
for language, code in blocks:
    if named := re.match(r"# (\\w+\\.py)\\n", code):
        with open(named[1], "w") as file:
            file.write(code)
    elif language == "python":
        exec(compile(code, sys.argv[1], "exec"), globals())
        take_batches(globals(), taken)
    else:
        subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True)
"""

# Imported by every Python that the page starts.
CUSTOMIZE = """
from pathlib import Path
from recordzoo import catalogue
catalogue._FOLDER = Path({folder!r})
"""


def steps(page: Path) -> list[tuple[str, str]]:
    """Find a page's blocks in their order, without those that carry a reason for not being run."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        if match["language"] not in ("python", "sh") or NOT_RUN.search(text[: match.start()].rstrip("\n") + "\n"):
            continue
        lines = match["code"].splitlines()
        code = "\n".join(line for line in lines if match["language"] == "python" or not line.startswith(ELSEWHERE))
        found.append((match["language"], code))
    return [(language, code) for language, code in found if code]


def rows(page: Path) -> list[tuple[str, str]]:
    """Find the commands and calls of README's table "You have | Do"."""
    table = page.read_text(encoding="utf-8").partition("| You have | Do |\n")[2].partition("\n\n")[0]
    found = [code for line in table.splitlines() for code in re.findall(r"`([^`]+)`", line.split("|")[2])]
    opening = [("python", "import recordzoo\nfrom recordzoo import CUB200Record")] if found else []
    return opening + [("sh" if code.startswith("recordzoo ") else "python", code) for code in found]


def photos(folder: Path) -> None:
    for index, name in enumerate(("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png")):
        (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300 + index, 200)).save(folder / "photos" / name)


def shared_photos(folder: Path) -> None:
    """Photos that are not prepared yet: otherwise Slurm's script ends while its workers start."""
    (folder / "shared").mkdir()
    photos(folder / "shared")


def a_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "birds.zip", "w") as archive:
        for number, (image, _) in enumerate(legacy.files(4)):
            archive.writestr(f"train/{('owl', 'dove')[number % 2]}/{number}.jpg", image)


def a_list(folder: Path) -> None:
    names = [f"photos/{number}.png" for number in range(16)]
    lists.write_images(folder, names)
    (folder / "train.txt").write_text("".join(f"{name} cat\n" for name in names))


def a_csv_and_a_database(folder: Path) -> None:
    lists.write_images(folder, ["1.png"])
    (folder / "list.csv").write_text("path,label\n1.png,cat\n")
    legacy.folder2lmdb(folder / "old.lmdb", legacy.files(3))


def databases(folder: Path) -> None:
    legacy.folder2lmdb(folder / "train.lmdb", legacy.files(3))
    (folder / "old").mkdir()
    legacy.torchrecord(folder / "old" / "torchrecord", [legacy.tensors(*pair) for pair in legacy.pixels(3)], 2)
    datums = {f"{i}.jpg": legacy.datum(*pair) for i, pair in enumerate(legacy.pixels(3))}
    legacy.caffe(folder / "ilsvrc12_train_lmdb", datums)


def one_file_and_a_database(folder: Path) -> None:
    small = "CREATE TABLE small AS SELECT img_data AS thumbnail, img_data AS preview, 3 AS kind FROM images"
    test_foreign_sqlite.write(folder / "photos.db", small)
    rows = test_foreign_indexed.write(folder)
    index = ["offset,length,label", *(f"{offset},{length},{label}" for offset, length, label in rows)]
    (folder / "photos.csv").write_text("\n".join(index))


def tar_shards(folder: Path) -> None:
    """Four samples in two shards of WebDataset: files whose names differ in what follows the first dot."""
    (folder / "shards").mkdir()
    for shard in range(2):
        with tarfile.open(folder / "shards" / f"train-{shard:06d}.tar", "w") as tar:
            for number in (2 * shard, 2 * shard + 1):
                image, _ = legacy.files(4)[number]
                parts = {"jpg": image, "cls": b"%d" % (number % 2), "txt": b"a caption", "json": b'{"id": 1}'}
                for ending, data in parts.items():
                    member = tarfile.TarInfo(f"{number:04d}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def arrays(folder: Path) -> None:
    images, labels = np.zeros((4, 8, 9, 3), np.uint8), np.arange(4)
    np.savez(folder / "digits.npz", images=images, labels=labels)
    with h5py.File(folder / "galaxies.h5", "w") as file:
        file["images"], file["answers"] = images, labels


def parquet(folder: Path) -> None:
    """A dataset as `datasets` exports it, with the types of its columns."""
    from datasets import ClassLabel, Dataset, Features, Image, Value

    images = [{"bytes": image, "path": None} for image, _ in legacy.files(4)]
    columns = {"image": images, "label": [0, 1, 0, 1], "caption": ["a", "b", "c", "d"]}
    features = Features({"image": Image(), "label": ClassLabel(names=["cat", "dog"]), "caption": Value("string")})
    Dataset.from_dict(columns, features=features).to_parquet(str(folder / "beans.parquet"))


def photographs_of_imagenet(folder: Path) -> None:
    fake = imagenet.build(broken_exif=False)
    for split in ("train", "val"):
        fake.write_tree(folder / "data", split)


def the_examples(folder: Path) -> None:
    shutil.copytree(ROOT / "examples", folder / "examples")


def two_splits(folder: Path) -> None:
    coloured.write_trees(folder / "data", 8, 4)


def records_of_birds(folder: Path) -> None:
    from recordzoo import CUB200Record

    cub200.build(4, 6).write_tree(folder / "data")
    CUB200Record(folder / "data", prepare=True, workers=1)


def own_records(folder: Path) -> None:
    from recordzoo import RecordWriter

    with RecordWriter(folder / "my.records") as writer:
        writer.write({"image": legacy.files(1)[0][0], "target": 0})


def record_sets(folder: Path) -> None:
    """What is copied, merged and chosen from: sets of the same classes, two of a class each, one without splits."""
    from recordzoo import RecordWriter

    write_set(folder / "photos.records", 160)
    for number, name in enumerate(("2025", "2026", "a", "b", "data/photos")):
        write_set(folder / f"{name}.records", 6 + number, seed=number)
    for name in ("cat", "dog"):
        write_set(folder / f"{name}s.records", 4, classes=[name])
    with RecordWriter(folder / "scans.records", classes=["ill", "well"]) as writer:
        for number in range(40):
            writer.write({"image": legacy.files(1)[0][0], "target": number % 2, "patient": number // 4})
    (folder / "places.txt").write_text("3\n1\n")
    for disk in ("scratch", "backup"):
        (folder / disk).mkdir()


GIVEN: dict[str, tuple[Callable[[Path], None], ...]] = {
    "README.md": (photos, a_csv_and_a_database),
    "faults.md": (records_of_birds,),
    "format.md": (records_of_birds,),
    "guides/cluster.md": (photos, shared_photos),
    "guides/combining.md": (record_sets,),
    "guides/many-ranks.md": (two_splits,),
    "guides/memory.md": (photos,),
    "importing.md": (databases, one_file_and_a_database, tar_shards, parquet, arrays),
    "index.md": (photos,),
    "imagenet.md": (photographs_of_imagenet, the_examples),
    "guides/tables.md": (a_list, lists.write_dogs),
    "looking.md": (photos,),
    "own-data.md": (photos, a_zip),
    "variants.md": (photos, own_records),
}
"""What a page supposes that its reader has."""

SLURM = {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "2"}
"""What Slurm tells a job."""

SRUN = '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n'
"""Starts the command that `srun` would start on other hosts."""

FRAMEWORKS = ("guides/many-ranks.md",)
"""Pages that need packages of the extra `frameworks`: tests/frameworks/test_guides.py runs them."""

TRAINED = ("guides/boxes-and-masks.md",)
"""tests/test_guides.py runs them, and looks at what they train on."""


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Serve a small CUB-200-2011; yields the environment in which it is what `cub200` means."""
    root = tmp_path_factory.mktemp("mirror")
    cub200.build(4, 6).write_archive(root)
    data = (root / cub200.ARCHIVE).read_bytes()
    (root / "bin").mkdir()
    for program, module in (("recordzoo", "recordzoo"), ("torchrun", "torch.distributed.run"), ("dask", "dask")):
        (root / "bin" / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        (root / "bin" / program).chmod(0o755)
    (root / "bin" / "srun").write_text(SRUN)
    (root / "bin" / "srun").chmod(0o755)
    shutil.copytree(catalogue._FOLDER, root / "datasets", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    path = root / "datasets" / "cub200.toml"
    facts = catalogue.entry("cub200").files[0]
    toml = path.read_text(encoding="utf-8")
    for old, new in (
        (f"{facts.size_bytes:_}", f"{len(data)}"),
        (facts.md5, hashlib.md5(data).hexdigest()),
        (facts.sha256, hashlib.sha256(data).hexdigest()),
    ):
        assert toml.count(str(old)) == 1
        toml = toml.replace(str(old), new)
    toml = re.sub(r"^splits = .*$", "", toml, flags=re.MULTILINE)  # the counts are the real dataset's
    path.write_text(toml, encoding="utf-8")
    (root / "sitecustomize.py").write_text(CUSTOMIZE.format(folder=str(root / "datasets")))
    with FileServer({f"cub200/{cub200.ARCHIVE}": data}) as server:
        yield {
            "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{root}{os.pathsep}{ROOT}",
            "RECORDZOO_MIRROR": server.url,
        }


HERE = [page for page in PAGES if steps(page) and name_of(page) not in (*FRAMEWORKS, *TRAINED)]


@pytest.mark.parametrize("page", HERE, ids=name_of)
def test_a_page_runs_in_an_empty_directory(page: Path, mirror: dict[str, str], tmp_path: Path) -> None:
    run_page(page, tmp_path, {**mirror, "HF_HOME": str(tmp_path / "hf")})


def run_page(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """Run a page's blocks, one after the other, where there is what it supposes."""
    for give in GIVEN.get(name_of(page), ()):
        give(tmp_path)
    blocks = tmp_path.with_name(f"{tmp_path.name}.json")
    blocks.write_text(json.dumps(steps(page) + rows(page)))
    own = SLURM if name_of(page) == "guides/cluster.md" else {}
    variables = {**os.environ, **environment, **own}
    ended = warm.run(DRIVER, str(blocks), cwd=tmp_path, env=variables, timeout_s=280)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
