"""Mistakes on the command line: each is answered with an exit code and one line, before anything is done."""

import shlex

import numpy as np
import pytest
from PIL import Image

from tests.fakes import folder
from tests.fakes.records import write_records
from tests.running import run

THERE = "s3://bucket/data/a.records"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A directory with a prepared tree, an unprepared one, images without classes, and damaged files."""
    here = tmp_path_factory.mktemp("mistakes")
    folder.write_tree(here / "photos")
    assert run("prepare", "photos", cwd=here).returncode == 0
    folder.write_tree(here / "raw")
    for name in ("empty", "odd.records", ".hidden", "cub2000", "damaged", "classes/cat", "flat"):
        (here / name).mkdir(parents=True)
    (here / "classes" / "cat" / "notes.txt").touch()
    (here / "damaged" / "CUB_200_2011.tgz").write_bytes(b"this is not an archive" * 100)
    for name in ("own.py", "x.lmdb", "files.jpg"):
        (here / name).touch()
    splits = {"train": np.array([0]), "test": np.array([1])}
    write_records(here / "some.records", [b"one", b"two"], encoding="image", splits=splits, classes=("cat", "dog"))
    for number in range(2):
        Image.new("RGB", (8, 6)).save(here / "flat" / f"{number}.png")
    return here


MISTAKES = [
    *((name, 2, "Missing argument '") for name in ("info", "prepare", "verify", "show", "bench", "push", "pull")),
    ("prepare cub200 --workers 0", 2, "--workers"),
    ("prepare imagenet --output x", 2, "--output names one record set, but 2 are asked for"),
    # one letter beside what was meant
    ("prepar mnist", 2, "No such command 'prepar'. Did you mean 'prepare'? See: "),
    ("cache lss", 2, "No such command 'lss'. Did you mean 'ls'? See: "),
    ("prepare mnist --jsn", 2, "--json"),
    ("info --qqq mnist", 2, "No such option: --qqq. See: "),
    ("--root data prepare mnist", 2, "No such option: --root. See: "),
    ("prepare CUB200Record", 2, "Did you mean cub200? "),
    ("info imagenet.vall", 2, "it has imagenet.train, imagenet.val. Did you mean imagenet.val?"),
    ("prepare mnist --split trian", 2, "it has train, test. Did you mean train?"),
    *((f"{name} some.records --split tets", 2, "it has test, train. Did you mean test?") for name in ("show", "bench")),
    ("show some.records --class dgo", 2, "Did you mean dog?"),
    ("show some.records --order clas", 2, "Did you mean class?"),
    ("list --obtained byhand", 2, "Did you mean by-hand?"),
    ("prepare x.lmdb --from caff", 2, "Did you mean caffe?"),
    ("cache rm som", 2, "Did you mean ./some.records?"),
    # names and paths
    *((f"info {name}", 2, "Did you mean cub200?") for name in ("cub20", "CUB-200-2011")),  # no path, such as cub2000
    *((f"{name} photoss", 2, "Did you mean ./photos?") for name in ("prepare", "info", "show", "bench", "verify")),
    *((f"{name} ./photoss", 3, "./photoss does not exist") for name in ("prepare", "info", "show", "bench", "verify")),
    ("prepare file", 2, "There is no dataset and no path 'file'. recordzoo list shows"),  # no hidden file, no picture
    ("verify none.records", 3, "There is no record set at none.records: it does not exist."),
    ("show empty", 3, "Run: recordzoo prepare empty"),
    ("bench odd.records", 5, "odd.records"),
    *((f"{name} ''", 2, "An argument is empty. Is a variable of the shell not set?") for name in ("prepare", "verify")),
    ("cache ls . nowhere", 3, "nowhere is no directory."),
    ("prepare raw --from flat --output files.jpg/new.records", 1, "/files.jpg failed: [Errno 17] File exists"),
    ("doctor --root nowhere", 3, "--root nowhere is not there."),
    # options that would be ignored
    ("prepare raw --root elsewhere", 2, "--root elsewhere is for datasets, and raw is a directory of images"),
    *(
        (f"prepare raw {option}", 2, f"{option.split()[0]} is for datasets, and raw is a directory")
        for option in ("--mirror https://example.org", "--accept-terms", "--discard-raw", "--no-check-hash")
    ),
    *((f"prepare cub200 {each}", 2, f"({each.split()[0]}) is for ") for each in ("--from flat", "--allow-empty")),
    ("prepare raw --split train", 2, "split"),
    # values
    ("list --max-size big", 2, "--max-size 'big' is no size"),
    ("show photos --number 1001", 2, "1000"),
    ("show photos --output sheet.jpg", 2, "--output sheet.jpg does not end with .png"),
    ("bench photos --transform own.py:squash", 2, "module 'own' has no attribute 'squash'"),
    # raw data
    ("prepare empty/", 3, "empty has no class folders, no images, and no files of a known format."),
    *((f"prepare classes {each}", 3, "There are no images in classes") for each in ("--from flat", "--allow-empty")),
    ("prepare flat", 3, "2 images lie there without class folders."),
    ("prepare cub200 --root damaged --no-check-hash", 5, "CUB_200_2011.tgz"),
    # URLs
    (f"bench {THERE}", 2, f"bench needs a record set on this machine. Run: recordzoo pull {THERE}"),
    (f"pull {THERE} {THERE}", 2, f"{THERE} is a URL; a record set is pulled into a directory of this machine."),
    *((f"{name} photos", 2, "'photos' is no URL") for name in ("pull", "push photos")),
    (f"prepare {THERE}", 2, f"{THERE} is a URL; raw data and the record sets made from it are on this machine."),
    *((f"prepare mnist {each} {THERE}", 2, f"{each} is a URL, and must be on") for each in ("--root", "--output")),
    ("info s3://", 2, "s3:// names no bucket"),
]


@pytest.mark.parametrize(("words", "code", "said"), MISTAKES)
def test_a_mistake_is_answered_with_one_line(words, code, said, here):
    before = _names(here)
    result = run(*shlex.split(words), cwd=here)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert said in line
    if code == 2:
        assert result.stderr == f"{line}\n"
    assert _names(here) == before


def _names(folder):
    """List a folder, without the modules that Python compiled there (`bench --transform own.py:...`)."""
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
