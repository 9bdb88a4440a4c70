"""Run rows: write what each contestant reads, check what it gives, measure in turn, each time in a fresh process."""

import importlib
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from benchmarks.common import drop_caches
from benchmarks.measuring import Measurement, measure, medians
from benchmarks.peers.rows import Contestant, Row
from benchmarks.peers.trees import count_files, find_tree
from benchmarks.peers.work import Work
from recordzoo.cli.bench import in_fresh_process

AT_LEAST_S = 1.0


def run_row(row: Row, photos: Sequence[bytes], repeats: int) -> dict[str, Any]:
    """Measure a row; returns its document, in which a contestant that cannot run says why."""
    documents = {c.label: _prepare(c, row.work, photos) for c in row.contestants}
    runs: dict[str, list[Measurement]] = {label: [] for label in documents}
    for _ in range(repeats):
        for contestant in row.contestants:
            if "problem" not in documents[contestant.label]:
                tree = find_tree(contestant.tree, photos)
                run = in_fresh_process(run_once, contestant, row.work, tree, AT_LEAST_S)
                print(f"  {contestant.label}: {run.images_per_s:,.0f} images/s", file=sys.stderr, flush=True)
                runs[contestant.label].append(run)
    for label, document in documents.items():
        if runs[label]:
            document |= {"median": asdict(medians(runs[label])), "images_per_s": [r.images_per_s for r in runs[label]]}
    wanted = {other.label: ratio for other, ratio in row.against}
    return {
        "title": row.title,
        "ours": row.ours.label,
        "wanted_per_s": row.wanted_per_s,
        "workers": row.work.workers,
        "repeats": repeats,
        "contestants": [
            {"label": c.label, "wanted": wanted.get(c.label), **documents[c.label]} for c in row.contestants
        ],
    }


def cold_epoch(ours: Contestant, work: Work, photos: Sequence[bytes], repeats: int) -> dict[str, Any]:
    """Measure an epoch in random order after the caches were dropped, the same warm, and the device's own speed."""
    document = _prepare(ours, work, photos)
    if "problem" in document:
        return document
    tree = find_tree(ours.tree, photos)
    shards = sorted((folder_of(ours, tree) / "photos.records").glob("*.lmdb"))
    num_images, num_bytes = count_files(tree), sum(shard.stat().st_size for shard in shards)
    sequential, cold, warm = [], [], []
    for _ in range(repeats):
        sequential.append(in_fresh_process(_read_in_order, shards) * num_images / num_bytes)
        run = in_fresh_process(run_once, ours, work, tree, 0.0, True)
        cold.append(run.first_epoch_images_per_s)
        warm.append(run.images_per_s)
        print(
            f"  sequential, cold, warm: {sequential[-1]:,.0f}, {cold[-1]:,.0f}, {warm[-1]:,.0f} images/s",
            file=sys.stderr,
        )
    return {"num_images": num_images, "num_bytes": num_bytes, "sequential": sequential, "cold": cold, "warm": warm}


def _prepare(contestant: Contestant, work: Work, photos: Sequence[bytes]) -> dict[str, Any]:
    """Write what a contestant reads, unless it is there, and run one epoch; whatever goes wrong is its problem."""
    tree = find_tree(contestant.tree, photos)
    try:
        return in_fresh_process(write_and_check, contestant, work, tree)
    except Exception as err:  # noqa: BLE001 - a peer that cannot be installed or fails is a line of the page
        problem = f"{type(err).__name__}: {err}".splitlines()[0]
        print(f"  {contestant.label}: {problem}", file=sys.stderr, flush=True)
        return {"problem": problem}


def folder_of(contestant: Contestant, tree: Path) -> Path:
    """Return where a peer keeps a tree, written with certain options."""
    options = [f"{key}={value}" for key, value in contestant.write.items()]
    return tree.parent / "-".join([contestant.peer, *options])


def write_and_check(contestant: Contestant, work: Work, tree: Path) -> dict[str, Any]:
    """Write, and go through one epoch: all images must come, in the size that was asked for."""
    module, folder = _module(contestant), folder_of(contestant, tree)
    document: dict[str, Any] = {}
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.tmp")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        module.write(tree, draft, **contestant.write)
        draft.rename(folder)
    count = 0
    for images in _images(module.loader(tree, folder, work, **contestant.loader)):
        count += len(images)
        document["batch"] = document.get("batch") or _described(images)
    if count != count_files(tree):
        raise AssertionError(f"an epoch gave {count} of {count_files(tree)} images")
    return document


def _images(batches: Any) -> Iterator[torch.Tensor]:
    for batch in batches:
        yield next(leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.ndim == 4)


def _described(images: torch.Tensor) -> str:
    order = "NHWC" if images.shape[-1] == 3 or images.is_contiguous(memory_format=torch.channels_last) else "NCHW"
    return f"{str(images.dtype).removeprefix('torch.')}, {order} in memory"


def run_once(contestant: Contestant, work: Work, tree: Path, at_least_s: float, cold: bool = False) -> Measurement:
    module, folder = _module(contestant), folder_of(contestant, tree)
    num_images = count_files(tree)
    if cold:
        drop_caches()
    return measure(lambda: module.loader(tree, folder, work, **contestant.loader), num_images, at_least_s)


def _module(contestant: Contestant) -> Any:
    return importlib.import_module(f"benchmarks.peers.{contestant.peer}")


def _read_in_order(paths: Sequence[Path]) -> float:
    """Read files front to back from a cold cache; returns bytes a second."""
    drop_caches()
    start, total = time.perf_counter(), 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while data := file.read(4 << 20):
                total += len(data)
    return total / (time.perf_counter() - start)
