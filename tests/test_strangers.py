"""Record sets from strangers, opened as datasets and looked at with the command line.

What the format itself allows is in `tests.test_reading_faults`; here it is what a dataset and a person make of it.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets.folder import default_loader

from recordzoo.datasets import ImageFolderRecord
from recordzoo.errors import CorruptRecordError, ManifestError, PrepareError
from recordzoo.preparing.preparation import ensure
from recordzoo.records.manifest import SetKind
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from tests.fakes import simple
from tests.fakes.pictures import encoded, picture
from tests.fakes.records import edit_manifest, flip_byte, place_of, some_values, write_records
from tests.fakes.server import FileServer
from tests.fakes.simple import SimpleRecipe
from tests.preparing import REPOSITORY, contents


def image_set(folder: Path, images: dict[str, bytes]) -> Path:
    """Write a set of images as `ImageFolderRecord` opens it, under names that nobody has looked at."""
    names = sorted(images)
    arrays = {"target": np.zeros(len(names), np.int64)}
    values = [images[name] for name in names]
    return write_records(folder, values, names=names, arrays=arrays, kind=SetKind.FOLDER, classes=["a"])


def pictures() -> dict[str, bytes]:
    """Make one picture in many of Pillow's formats, all under the name of a JPEG, and some that are none."""
    image = picture(np.random.default_rng(1), 20, 16)
    kinds = ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "PCX", "ICO", "SGI", "DDS", "EPS"]
    files = {kind: encoded(image, kind) for kind in kinds}
    files |= {"cut": files["JPEG"][:300], "text": b"no image", "nothing": b""}
    return {f"a/{name}.jpg": data for name, data in files.items()}


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program called "gs" on the path; it makes a file when it is started."""
    started, program = tmp_path / "started", tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch '{started}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return started


def outcome(load: Callable[[], Image.Image]) -> bytes | type[Exception]:
    """Return an image's pixels, or the error's type."""
    try:
        return load().tobytes()
    except Exception as err:  # noqa: BLE001 - which one is compared with torchvision's
        return OSError if isinstance(err, OSError) else type(err)


def test_images_of_any_format_start_no_program(tmp_path: Path, ghostscript: Path) -> None:
    images = pictures()
    folder = image_set(tmp_path / "x.records", images)
    dataset = ImageFolderRecord(folder)
    found = [outcome(lambda index=index: dataset[index][0]) for index in range(len(dataset))]  # type: ignore[misc]
    assert verify(folder, full=True).ok
    assert not ghostscript.exists()
    for name, ours in zip(sorted(images), found, strict=True):
        (tmp_path / "file.jpg").write_bytes(images[name])
        assert ours == outcome(lambda: default_loader(str(tmp_path / "file.jpg"))), name
    assert ghostscript.exists()  # torchvision started it


@pytest.mark.parametrize("name", ["../outside/x.jpg", "a/../../outside/x.jpg", "{outside}/x.jpg"])
def test_a_name_that_leads_out_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.jpg").write_bytes(b"a secret")
    name = name.format(outside=tmp_path / "outside")
    folder = image_set(tmp_path / "x.records", {"a/..hidden..jpg": b"harmless", name: b"stored"})
    asked: list[str] = []

    def loader(path: str) -> bytes:
        asked.append(path)
        return Path(path).read_bytes()

    dataset = ImageFolderRecord(folder, loader=loader)
    good, bad = (RecordReader(folder).names[:].index(each) for each in ("a/..hidden..jpg", name))
    assert dataset[good][0] == b"harmless"
    for use in (lambda: dataset[bad], lambda: dataset.samples[bad], lambda: list(dataset.imgs)):
        with pytest.raises(CorruptRecordError, match="leads out of"):
            use()
    assert len(asked) == 1
    assert dataset.read(bad) == b"stored"
    report = verify(folder)
    assert report.ok
    assert [note for note in report.notes if "leads out of" in note and name in note]


ACTING = "x\x1b]0;owned\x07\x1b[2J\r\nshard-00000.lmdb: ok\u202egpj.\u2028\u009b31m"
"""A title for the terminal, an empty screen, a line of its own, a name that reads backwards."""


@pytest.mark.slow
def test_nothing_that_is_printed_acts_on_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / f"{ACTING}.records"
    names = [f"{ACTING}{number}" for number in range(5)]
    texts = {"classes": [ACTING], "bad": {ACTING: ACTING}, "skipped": {ACTING: ACTING}, "source": ACTING}
    write_records(folder, some_values(5), names=names, metadata={"num_bad": ACTING}, **texts)
    (folder / ACTING).touch()
    for position in range(5):
        flip_byte(*place_of(folder, position))
    assert printed_lines(folder, "verify", "--full", code=5) == 10  # a hash, each record, and what else is said
    edit_manifest(folder, lambda document: document.update(variant=ACTING))
    assert printed_lines(folder, "info", code=5) == 1


def printed_lines(folder: Path, command: str, *options: str, code: int) -> int:
    """Run a command on a set, look for what would act, and return how many lines it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "recordzoo", command, folder, *options], cwd=REPOSITORY, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr
    text = (done.stdout + done.stderr).decode()
    assert not {character for character in text if character != "\n" and not character.isprintable()}
    assert not [line for line in text.split("\n") if line.startswith("shard-00000.lmdb: ok")]
    return text.count("\n")


@pytest.mark.parametrize(
    "sample",
    [
        *(None, 5, "x", [], ["parts"], {"parts": 5}, {"parts": []}, {"parts": {"target": 5}}),
        *({"parts": {"target": ["absent"]}}, {"parts": {"target": [["image"]]}}, {"parts": {"target": "image.index"}}),
        *({"parts": {"target": ["names_offsets"]}}, {"tensors": 5}, {"tensors": [{}]}, {"tensors": ["absent"]}),
        *({"pictures": 5}, {"pictures": {"image": "x"}}, {"pictures": {"absent": 2}}),
    ],
)
def test_a_description_of_samples_that_describes_nothing(sample: object, tmp_path: Path) -> None:
    folder = write_records(tmp_path / "x.records", some_values(3), kind=SetKind.OWN, metadata={"sample": sample})
    with pytest.raises(ManifestError, match="does not describe its fields"):
        ImageFolderRecord(folder)


def test_links_are_not_followed_where_something_is_written_or_removed(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (elsewhere / "folder").mkdir(parents=True)
    (elsewhere / "file").write_text("precious")
    (elsewhere / "folder" / "file").write_text("precious too")
    archive = simple.write(root, "stream")
    before = contents(elsewhere)
    (root / f".{archive.name}.recordzoo").symlink_to(elsewhere / "file")
    build = root / "simple.records.build"
    build.mkdir()
    (build / "set").symlink_to(elsewhere / "folder")
    for name in ("plan.json", "u00000-00000.npz", "u00000-00000.lmdb", "replacing"):
        (build / name).symlink_to(elsewhere / "file")
    archive.rename(elsewhere / "archive")
    archive.symlink_to(elsewhere / "archive")
    before = contents(elsewhere)
    recipe = SimpleRecipe("stream", (simple.remote(archive),))
    for number, refresh in enumerate((False, True, True)):
        path = ensure(recipe, root, workers=1, refresh=refresh, discard_raw=True)
        assert len([each for each in path.iterdir() if each.is_symlink()]) == 2 * number  # kept, as links
        (path / f"deep{number}").symlink_to(elsewhere / "folder")
        (path / f"shard-9999{number}.lmdb").symlink_to(elsewhere / "file")
    assert contents(elsewhere) == before
    assert not build.exists()
    assert archive.is_symlink()


@pytest.mark.parametrize("name", ["lock", ""])
def test_a_link_in_place_of_a_build_or_its_lock_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("precious")
    simple.write(tmp_path / "root", "stream")
    build = tmp_path / "root" / "simple.records.build"
    if name:
        build.mkdir()
        (build / name).symlink_to(tmp_path / "file")
    else:
        build.symlink_to(tmp_path / "folder")
    with pytest.raises(PrepareError, match=r"simple\.records\.build|Too many levels of symbolic links"):
        ensure(SimpleRecipe("stream"), tmp_path / "root", workers=1)
    assert (tmp_path / "file").read_text() == "precious"
    assert not list((tmp_path / "folder").iterdir())


def test_a_download_is_marked_through_no_link(tmp_path: Path) -> None:
    source, root = tmp_path / "server", tmp_path / "root"
    archive = simple.write(source, "stream")
    root.mkdir()
    (tmp_path / "file").write_text("precious")
    (root / f".{archive.name}.recordzoo").symlink_to(tmp_path / "file")
    with FileServer(source) as server:
        recipe = SimpleRecipe("stream", (simple.remote(archive, server.url),))
        ensure(recipe, root, workers=1, download=True)
    assert (tmp_path / "file").read_text() == "precious"
