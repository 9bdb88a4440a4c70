"""Record sets in many processes and threads: DataLoader workers of every kind, few descriptors, other users."""

import os
import pickle
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import pil_to_tensor

from recordzoo import ImageFolderRecord
from recordzoo.errors import CorruptRecordError, RecordError
from recordzoo.records import files
from recordzoo.records.reader import RecordReader
from tests.fakes.pictures import jpeg, picture
from tests.fakes.records import some_values, write_records
from tests.running import exit_code, fork, printed

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
pytestmark = [
    # Python 3.12 and later; torch starts threads of its own.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),  # on a machine with one core
]


# Any: of datasets and loaders of all kinds.
def forked(dataset: Any, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, **{"batch_size": 8, "num_workers": 2, "multiprocessing_context": "fork", **options})


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree") / "birds"
    rng = np.random.default_rng(0)
    for number in range(60):
        path = root / f"class {number % 4}" / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(picture(rng, 24, 16)))
    return root


@pytest.fixture(scope="module")
def dataset(tree: Path) -> ImageFolderRecord:
    return ImageFolderRecord(tree, transform=pil_to_tensor)


@pytest.fixture(scope="module")
def expected(tree: Path) -> tuple[torch.Tensor, list[int]]:
    samples = list(ImageFolder(tree, transform=pil_to_tensor))
    return torch.stack([image for image, _ in samples]), [label for _, label in samples]


def check(batches: Any, expected: tuple[torch.Tensor, list[int]]) -> None:
    images, labels = zip(*batches, strict=True)
    assert torch.equal(torch.cat(images), expected[0])
    assert torch.cat(labels).tolist() == expected[1]


@needs_fork
@pytest.mark.parametrize(
    "context",
    ["fork", pytest.param("spawn", marks=pytest.mark.slow), pytest.param("forkserver", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("persistent", [False, True])
def test_loader(
    dataset: ImageFolderRecord, expected: tuple[torch.Tensor, list[int]], context: str, persistent: bool
) -> None:
    assert dataset[0][1] == 0  # this process has descriptors and maps open when the workers start
    loader = DataLoader(
        dataset, batch_size=7, num_workers=2, multiprocessing_context=context, persistent_workers=persistent
    )
    for _ in range(2):
        check(loader, expected)
    check([(image[None], torch.tensor([label])) for image, label in dataset], expected)


class Values(torch.utils.data.Dataset[int]):
    """The values themselves, without a decoder; hinted as the datasets are."""

    def __init__(self, folder: Path) -> None:
        self.records = RecordReader(folder)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, position: int) -> int:
        return hash_of(self.records.read("image", position))

    def __getitems__(self, positions: list[int]) -> list[int]:
        self.records.hint("image", positions)
        return [self[i] for i in positions]


def hash_of(data: bytes) -> int:
    return int.from_bytes(data[:7], "little")


@pytest.fixture(scope="module")
def many_values() -> list[bytes]:
    return some_values(400, sizes=(50, 5000))


@pytest.fixture(scope="module")
def many_shards(tmp_path_factory: pytest.TempPathFactory, many_values: list[bytes]) -> Path:
    return write_records(tmp_path_factory.mktemp("many") / "many.records", many_values, per_shard=2)


FEW_DESCRIPTORS = """
import os, resource, sys, warnings
warnings.simplefilter("error")
from concurrent.futures import ThreadPoolExecutor
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from recordzoo.records.reader import RecordReader
from recordzoo.records.verify import verify
one, two = (RecordReader(sys.argv[1]) for _ in range(2))
assert len(one.manifest.shards) == 200
one.hint("image", range(len(one)))
with ThreadPoolExecutor(8) as pool:
    for _ in range(5):  # a wrong shard's value has another checksum
        values = list(pool.map(lambda i: (one if i % 3 else two).read("image", i), range(len(one))))
one.hint("image", range(len(one)))
print(len(os.listdir("/dev/fd")), sum(map(len, values)), verify(sys.argv[1], full=True).problems)
"""


def test_more_shards_than_descriptors(many_shards: Path, many_values: list[bytes]) -> None:
    pytest.importorskip("resource", reason="this system has no limit on descriptors")
    num_open, num_bytes, problems = printed(FEW_DESCRIPTORS, many_shards).split(maxsplit=2)
    assert int(num_open) < 30
    assert int(num_bytes) == sum(map(len, many_values))
    assert problems == "[]\n"


@pytest.mark.slow
@needs_fork
def test_forking_while_threads_read(
    many_shards: Path, many_values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lock that a thread of the parent holds may be waited for in the child, no descriptor be shared with it."""
    monkeypatch.setattr(files.shard_files, "limit", 3)
    records = RecordReader(many_shards)
    stop = threading.Event()

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            RecordReader(many_shards).array("target")
            assert records.read("image", int(rng.integers(400)))

    def read_some() -> None:
        fresh = RecordReader(many_shards)
        assert all(records.read("image", i) == many_values[i] for i in range(0, 400, 9))
        assert fresh.read("image", 5) == many_values[5]
        assert len(records.names) == 400

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            assert exit_code(fork(read_some)) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


READ_ONLY = """
import os, sys
from torch.utils.data import DataLoader
from recordzoo import ImageFolderRecord
from recordzoo.records.verify import verify
from tests.users import become
def read():
    dataset = ImageFolderRecord(sys.argv[1], transform=lambda image: sum(image.getpixel((3, 4))))
    loader = DataLoader(dataset, batch_size=8, num_workers=2, multiprocessing_context="fork")
    return [int(value) for images, _ in loader for value in images], verify(dataset.records_path).problems
if os.getuid() == 0:
    read()  # imports what it needs, which may lie in root's home
    become(65534, 65534)
assert not os.access(sys.argv[1], os.W_OK)
print(*read(), sep="\\n")
"""


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("what", ["birds.records", "birds"])
def test_a_directory_in_which_nothing_may_be_written(tree: Path, dataset: ImageFolderRecord, what: str) -> None:
    """As another user where this one is root, who may write anywhere; that one cannot reach pytest's folders."""
    with tempfile.TemporaryDirectory() as name:
        public = Path(name)
        shutil.copytree(tree, public / "birds")
        shutil.copytree(dataset.records_path, public / "birds.records")
        before = sorted(public.rglob("*"))
        for path in [public, *before]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        pixels, problems = printed(READ_ONLY, public / what).splitlines()
        assert sorted(public.rglob("*")) == before
    assert pixels == str([sum(image.getpixel((3, 4))) for image, _ in ImageFolder(tree)])
    assert problems == "[]"


@needs_fork
def test_workers_stay_with_the_set_that_they_opened(tmp_path: Path, many_values: list[bytes]) -> None:
    """A set is refreshed by exchanging directories, while persistent workers are in the middle of it."""
    folder = write_records(tmp_path / "x.records", many_values[:200], per_shard=20)
    data = Values(folder)
    loader = forked(data, persistent_workers=True, collate_fn=list)
    right = [hash_of(value) for value in many_values[:200]]
    batches = iter(loader)
    first = next(batches)
    pickled = pickle.dumps(data)
    new = write_records(tmp_path / "new.records", many_values[200:], per_shard=20)
    folder.rename(tmp_path / "old.records")
    new.rename(folder)
    assert [*first, *(value for batch in batches for value in batch)] == right
    assert [value for batch in loader for value in batch] == right
    with pytest.raises(RecordError, match="was replaced by another record set"):
        pickle.loads(pickled)
    assert Values(folder)[0] == hash_of(many_values[200])


@pytest.fixture
def cuttable(tmp_path: Path, many_values: list[bytes]) -> Path:
    return write_records(tmp_path / "x.records", many_values[:200], per_shard=20)


def read_until_it_fails(loader: DataLoader[int], match: str) -> None:
    batches: Any = iter(loader)
    with pytest.raises(CorruptRecordError, match=match):
        list(batches)
    # Left to the garbage collector, its queues may end before its workers, each of whom then waits for 5 seconds.
    batches._shutdown_workers()


@needs_fork
@pytest.mark.parametrize("size", [0, 1, 4096, 5000, -1])
def test_files_that_are_cut_while_workers_read(cuttable: Path, many_values: list[bytes], size: int) -> None:
    data = Values(cuttable)
    loader = forked(data, persistent_workers=True)
    assert len(list(loader)) == 25  # every worker has used the arrays and has shards open
    cut(cuttable / "image.index.npy", size)
    right = [hash_of(value) for value in many_values[:200]]
    assert [value for batch in loader for value in batch.tolist()] == right
    for path in cuttable.glob("*.lmdb"):
        cut(path, size)
    read_until_it_fails(loader, r"x\.records: image \d+ \(class \d/\d+\.jpg\) is damaged")
    with pytest.raises(CorruptRecordError, match="was cut, extended or replaced"):
        Values(cuttable)[0]


def cut(path: Path, size: int) -> None:
    """Cut a file in place to a size; a negative one is counted from its end, of which the last value is not a part."""
    os.truncate(path, size if size >= 0 else path.stat().st_size // 2)


DEADLY = """
import os, sys
from torch.utils.data import DataLoader, Dataset
from recordzoo.records.reader import RecordReader
class Values(Dataset):
    deadly = True
    def __init__(self):
        self.records = RecordReader(sys.argv[1])
    def __len__(self):
        return len(self.records)
    def __getitem__(self, position):
        if self.deadly and position == 99:
            os.kill(os.getpid(), int(sys.argv[2]))
        return len(self.records.read("image", position))
values = Values()
assert values[0]
options = dict(batch_size=8, num_workers=2, multiprocessing_context="fork", collate_fn=list)
try:
    list(DataLoader(values, **options))
except RuntimeError as err:
    assert "DataLoader worker (pid" in str(err), err
    values.deadly = False
    print(sum(sum(batch) for batch in DataLoader(values, **options)))
"""


@needs_fork
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGBUS, marks=pytest.mark.slow)])
def test_a_worker_that_dies(cuttable: Path, many_values: list[bytes], number: signal.Signals) -> None:
    """Killed for want of memory, or by a bus error: no hang, and nothing that the next workers could fall over."""
    assert printed(DEADLY, cuttable, int(number)) == f"{sum(map(len, many_values[:200]))}\n"


LITTLE_MEMORY = r"""
import re, resource, sys
from pathlib import Path
from recordzoo.errors import RecordError
from recordzoo.records import arrays
from recordzoo.records.reader import RecordReader
records = RecordReader(sys.argv[1])
assert len(records.read("image", 1)) and len(records.names[1])
arrays.MAPPED_BYTES = 0  # as if it were large
limit = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) + 24_000 << 10
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    records.array("large")
except RecordError as err:
    print(type(err).__name__, err)
print(sum(len(records.read("image", i)) for i in range(len(records))))
"""


def test_little_address_space(tmp_path: Path, many_values: list[bytes]) -> None:
    large = np.zeros((400, 10_000), np.int64)
    folder = write_records(tmp_path / "x.records", many_values, arrays={"large": large})
    said, num_bytes = printed(LITTLE_MEMORY, folder).splitlines()
    assert said.startswith(f"RecordError {folder}/large.npy cannot be mapped: Cannot allocate memory.")
    assert "raise the limit (ulimit -v)" in said
    assert int(num_bytes) == sum(map(len, many_values))
