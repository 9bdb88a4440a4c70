"""What is done on "Windows" (`tests.windows`) and, to compare, on the system at hand: the same calls, the same results.

PYTHONPATH=tests/windows_site:. RECORDZOO_WINDOWS_FOLDER=FOLDER python -m tests.on_windows FOLDER
"""

import contextlib
import gc
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image

from recordzoo import ImageFolderRecord, RecordLoader
from recordzoo.errors import PrepareError
from recordzoo.preparing.preparation import ensure
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
from tests.fakes import folder, simple
from tests.fakes.pictures import encoded
from tests.fakes.server import FileServer
from tests.fakes.simple import SimpleRecipe
from tests.preparing import SHARD_BYTES

Facts = dict[str, Any]  # what a scenario found, as JSON


def digest(values: Any) -> str:
    return hashlib.sha256(b"\0".join(values)).hexdigest()


def contents(path: Path) -> dict[str, str]:
    """The hash of each file, but of those that tell where and when it was made."""
    own = (file for file in path.iterdir() if file.suffix in (".lmdb", ".npy") or file.name == "manifest.json")
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(own)}


def left_in(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def tree_here(root: Path) -> Facts:
    """A tree, converted in this process and in two workers; another one takes its place."""
    simple.write(root, "tree")
    recipe = SimpleRecipe("tree")
    one = contents(ensure(recipe, root, workers=1, shard_bytes=SHARD_BYTES))
    two = contents(ensure(recipe, root, workers=2, shard_bytes=SHARD_BYTES, refresh=True))
    return {"one": one, "two": two, "left": left_in(root)}


def archive_fetched(root: Path) -> Facts:
    """An archive from a server that hangs up half way; then the same again, from where it was."""
    archive = simple.write(root / "server", "stream")
    with FileServer(root / "server") as server:
        remote = simple.remote(archive, server.url)
        options = {"download": True, "workers": 1, "shard_bytes": SHARD_BYTES}
        (root / "data").mkdir()
        (root / "data" / f"{archive.name}.part").write_bytes(archive.read_bytes()[:1000])
        path = ensure(SimpleRecipe("stream", (remote,)), root / "data", discard_raw=True, **options)
        ranges = [request.range for request in server.log]
    return {"made": contents(path), "ranges": ranges, "left": left_in(root / "data")}


def killed(root: Path) -> Facts:
    """A builder that dies between two shards; the next one goes on."""
    simple.write(root, "tree")
    words = [sys.executable, "-m", "tests.preparing", str(root), '{"form": "tree", "workers": 1}']
    assert subprocess.run(words, env={**os.environ, "RECORDZOO_KILL_AT": "shard.done:2"}, check=False).returncode
    (build,) = root.glob("simple.records.build")
    before = {path.name: path.stat().st_ino for path in build.glob("*.lmdb")}
    path = ensure(SimpleRecipe("tree"), root, workers=1, shard_bytes=SHARD_BYTES)
    kept = {file.stat().st_ino for file in path.glob("*.lmdb")} >= set(before.values())
    return {"made": contents(path), "built": sorted(before), "kept": kept, "left": left_in(root)}


def images(tree: Path) -> Facts:
    """The classes over a tree: samples one by one, in several threads at once, in batches, after a check of it all."""
    folder.write_tree(tree)
    for number in range(40):
        name = f"lake/{number:02d}.jpg"
        folder.write_tree(tree, {name: encoded(Image.new("RGB", (40, 30), (number, 2 * number, 90)), "JPEG")})
    dataset = ImageFolderRecord(tree, workers=1)
    records = dataset.records_path
    samples = [image.tobytes() + bytes([target]) for image, target in dataset]
    places = [*range(len(dataset))] * 5
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda index: dataset[index][0].tobytes(), places))
    assert read == [samples[index][:-1] for index in places]
    report = verify(records, full=True)
    loader = RecordLoader(ImageFolderRecord(tree, transform=thumbnail()), batch_size=7, shuffle=True, seed=3)
    batches = [batch.numpy().tobytes() + targets.numpy().tobytes() for batch, targets in loader]
    return {
        "made": contents(records),
        "names": RecordReader(records).names[:],
        "samples": digest(samples),
        "batches": digest(batches),
        "problems": report.problems,
        "checked": report.checked,
    }


def thumbnail() -> Callable[..., Any]:
    import torch
    from torchvision.transforms import v2

    steps = [v2.ToImage(), v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose(steps)


def in_use(root: Path) -> Facts:
    """A set that is open is made anew: on Windows that is refused until it is closed."""
    simple.write(root, "tree")
    path = ensure(SimpleRecipe("tree"), root, workers=1, shard_bytes=SHARD_BYTES)
    before, refused = contents(path), ""
    reader = RecordReader(path)
    value = reader.read("image", 0)
    try:
        ensure(SimpleRecipe("tree"), root, workers=1, shard_bytes=SHARD_BYTES, refresh=True)
    except PrepareError as err:
        refused = str(err)
    assert reader.read("image", 0) == value
    assert contents(path) == before
    del reader
    gc.collect()
    ensure(SimpleRecipe("tree"), root, workers=1, shard_bytes=SHARD_BYTES, refresh=True)
    return {"made": contents(path), "refused": refused, "left": left_in(root)}


def two_at_once(root: Path) -> Facts:
    """Two threads prepare the same: one builds, the other waits for it."""
    simple.write(root, "tree")
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(ensure, SimpleRecipe("tree"), root, workers=1) for _ in range(2)]
    made = [contents(call.result()) for call in calls]
    return {"same": made[0] == made[1], "made": made[0], "left": left_in(root)}


SCENARIOS = (tree_here, archive_fetched, killed, images, in_use, two_at_once)


def run(place: Path) -> dict[str, Facts]:
    """Do all of it, each in a directory of its own."""
    found = {}
    for scenario in SCENARIOS:
        root = place / scenario.__name__
        root.mkdir(parents=True)
        found[scenario.__name__] = scenario(root)
    return found


if __name__ == "__main__":
    multiprocessing.freeze_support()
    with contextlib.redirect_stdout(sys.stderr):
        facts = run(Path(sys.argv[1]))
    print(json.dumps(facts))
