"""What a loader says of itself: what is fused, what is not and why, which decoders, and what runs where."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import PIL
import pytest
import torch
from torch.utils.data import ConcatDataset
from torchvision import transforms as v1

from recordzoo import ImageFolderRecord, MultiView, RecordLoader
from recordzoo.images import decode as frames
from recordzoo.loader import placement as explain
from tests.batching import FIXED, JITTER, RANDOM, UINT8
from tests.fakes.samples import Samples

# Any: of transforms of all kinds.


DRAWS = (
    "what is not fused draws random numbers from the generators of its process: reproducible with num_workers=0, or "
    "deterministic=True"
)


def lines(dataset: Any, **options: Any) -> list[str]:
    """Return what is said behind the first line, but for who the workers are and what this machine lacks."""
    left_out = "slower than it could be", "workers: "
    return [line for line in all_lines(dataset, **options) if not line.startswith(left_out)]


def chosen(dataset: Any, **options: Any) -> str:
    return all_lines(dataset, **options)[-1]


def all_lines(dataset: Any, **options: Any) -> list[str]:
    first, *others = RecordLoader(dataset, 8, **options).explain().split("\n  ")
    assert first.startswith(f"RecordLoader({type(dataset).__name__} of {len(dataset)} samples, batch_size=8, ")
    return others


@pytest.mark.needs("numba", "turbojpeg")
def test_all_is_there(tree: Path) -> None:
    decoded, resampled, fused, *_ = lines(ImageFolderRecord(tree, transform=FIXED))
    assert decoded == f"decoded by {', then '.join(frames.decoders())}"
    assert resampled == "PIL images are resampled by compiled code (numba), as Pillow does"
    assert fused.startswith("fused: ")


def test_all_is_fused(tree: Path) -> None:
    assert lines(ImageFolderRecord(tree, transform=FIXED))[-4:] == [
        "fused: Resize(size=30, interpolation=bilinear, max_size=None, antialias=True)",
        "fused: CenterCrop(size=(24, 24))",
        "fused: ToTensor()",
        "fused: Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))",
    ]


def test_what_is_missing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = ImageFolderRecord(tree, transform=FIXED)
    monkeypatch.setattr(explain, "compiled_code", lambda **_: None)
    monkeypatch.setattr(explain, "why_not_compiled", lambda: "numba is not installed")
    monkeypatch.setattr(explain, "library", lambda: None)
    monkeypatch.setattr(frames, "library", lambda: None)
    monkeypatch.setattr(frames, "simplejpeg", object())
    monkeypatch.setattr(explain, "how_to_install", lambda package: f"pip install --upgrade {package}")
    monkeypatch.setattr(explain, "how_to_install_library", lambda: "pip install --upgrade turbojpeg")
    decoded, resampled, half, *_ = all_lines(dataset)
    assert decoded == "decoded by simplejpeg, then Pillow; libjpeg-turbo 3 would decode only what is kept"
    less = "; compiled code would be faster, but numba is not installed"
    assert resampled == "PIL images are resampled by Pillow" + less
    assert lines(dataset, precision="fast")[1] == "PIL images are resampled by torch" + less
    assert half == (
        "slower than it could be: numba is not installed and libjpeg-turbo 3 is not installed. "
        "Install: pip install --upgrade numba turbojpeg"
    )
    monkeypatch.setattr(explain, "compiled_code", lambda **_: SimpleNamespace(exact=frozenset()))
    monkeypatch.setattr(explain, "why_not_compiled", lambda: "")
    said = "the compiled code, which is faster, gives other pixels than this version"
    assert lines(dataset)[1] == f"PIL images are resampled by Pillow {PIL.__version__}: {said}"
    assert lines(dataset, precision="fast")[1] == "PIL images are resampled by compiled code (numba)"
    monkeypatch.setattr(explain, "compiled_code", lambda waits: SimpleNamespace(exact=frozenset()) if waits else None)
    monkeypatch.setattr(explain, "why_not_compiled", lambda: "")
    until = "until the compiled code is ready: another process compiles it, once for this machine"
    assert lines(dataset)[1] == f"PIL images are resampled by Pillow, {until}"


def test_what_is_not_fused_and_why(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=v1.Compose([v1.Resize(30), v1.Grayscale(1), v1.CenterCrop(24)]))
    _, _, *said, draws = lines(dataset)
    assert said == [
        "fused: Resize(size=30, interpolation=bilinear, max_size=None, antialias=True)",
        "not fused: Grayscale(num_output_channels=1): it makes images of one channel; runs for each sample, as written",
        "not fused: CenterCrop(size=(24, 24)): it comes behind one that is not fused; runs for each sample, as written",
    ]
    assert draws == DRAWS
    assert chosen(dataset, collate_fn=list) == (
        "workers: threads: of your own code there is only collate_fn <class 'list'>, which one more thread runs"
    )


def test_what_is_known_again_behind_it(tree: Path) -> None:
    chain = [v1.Resize((30, 30)), v1.Lambda(lambda image: image), v1.CenterCrop(24), v1.ToTensor()]
    said = lines(ImageFolderRecord(tree, transform=v1.Compose(chain)))
    assert [line.partition(":")[0] for line in said[2:-1]] == ["fused", "not fused", *["fused at the end"] * 2]


def test_views(tree: Path) -> None:
    said = lines(ImageFolderRecord(tree, transform=MultiView([FIXED, v1.Compose([UINT8, v1.Lambda(id)])])))
    assert [line for line in said if line.startswith("view ")] == [
        "view 1, of one decoding:",
        "view 2, of one decoding:",
    ]
    assert said[-2].startswith("not fused: Lambda()")


def test_workers(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=FIXED)
    assert chosen(dataset) == "workers: threads: all is fused"
    assert chosen(dataset, workers="processes") == "workers: processes: as asked"


def test_targets_and_batches_of_ones_own(tree: Path) -> None:
    dataset = ImageFolderRecord(tree, transform=FIXED, target_transform=float)
    assert lines(dataset, collate_fn=list)[-3:] == [
        "not fused: target_transform <class 'float'>; runs for each sample, as written",
        "collate_fn: samples are made on their own, for it to put together",
        DRAWS,
    ]
    assert lines(dataset, deterministic=True)[-1].startswith(
        "deterministic: what is not fused runs one sample at a time"
    )


def test_fast(tree: Path) -> None:
    said = lines(ImageFolderRecord(tree, transform=RANDOM), precision="fast")
    assert any(line.startswith("fast: decoded at half the size") for line in said)
    assert not any(line.startswith("fast") for line in lines(ImageFolderRecord(tree, transform=RANDOM)))
    assert "precision='fast'" in repr(RecordLoader(ImageFolderRecord(tree), precision="fast"))


def test_samples_that_are_no_rows(tree: Path) -> None:
    assert "no transform makes a tensor of the image: samples are PIL images" in lines(ImageFolderRecord(tree))
    said = lines(ImageFolderRecord(tree, transform=v1.ToTensor()))
    assert any(line.startswith("images may differ in size") for line in said)


def test_several_datasets(tree: Path) -> None:
    one, other = ImageFolderRecord(tree, transform=FIXED), ImageFolderRecord(tree, transform=UINT8)
    said = lines(ConcatDataset([one, other]))
    assert said[2] == f"dataset 0: ImageFolderRecord at {one.records_path}"
    assert said.index(f"dataset 1: ImageFolderRecord at {other.records_path}") == 7


def test_anybodys_dataset() -> None:
    said = lines(Samples("small"))
    assert said[0] == "not fused: Samples makes its samples itself; each sample is taken from Samples, as it gives it"
    assert said[1] == DRAWS
    assert len(said) == 2


def test_printing_is_explaining(tree: Path) -> None:
    loader = RecordLoader(ImageFolderRecord(tree, transform=FIXED), 8)
    assert str(loader) == loader.explain()
    assert "\n" not in repr(loader)


def test_printing_changes_nothing(tree: Path) -> None:
    """Neither the process's random numbers nor the epoch."""
    loader = RecordLoader(ImageFolderRecord(tree, transform=JITTER), 8, seed=1)
    before = torch.get_rng_state(), random.getstate(), loader.state_dict()
    str(loader)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), loader.state_dict()) == before[1:]
    assert loader.state_dict()["epoch"] == 0
