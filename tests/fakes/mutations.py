"""What people change in datasets after they opened them, by the attributes that a dataset has."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Mutations = Mapping[str, Callable[[Any], None]]


def change(name: str, new: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Assign an attribute what a function makes of it."""
    return lambda ds: setattr(ds, name, new(getattr(ds, name)))


def change_item(name: str, index: Any, new: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Replace an item of an attribute by what a function makes of the whole attribute."""
    return lambda ds: getattr(ds, name).__setitem__(index, new(getattr(ds, name)))


def rearranged(name: str, items: str, item: str, by: int, keep: int | None = None) -> Mutations:
    """Reverse a list; shorten it to so many items; replace its first item by another of it."""
    changes = {f"{items} reversed": change(name, lambda values: values[::-1])}
    if keep is not None:
        changes[f"{items} shortened"] = change(name, lambda values: values[:keep])
    return {**changes, f"{item} replaced": change_item(name, 0, lambda values: values[by])}


def relabelled(name: str, item: str) -> Mutations:
    """Assign labels that are all 0; replace the first by one that the dataset has not."""
    zeros = change(name, lambda labels: [0] * len(labels))
    return {f"{item}s assigned": zeros, f"a {item} replaced": change_item(name, 0, lambda labels: 99)}


TENSORS: Mutations = {
    "data flipped": change("data", lambda data: data.flip(0)),
    "data shortened": change("data", lambda data: data[:5]),
    "an image replaced": change_item("data", 0, lambda data: data[3]),
    "targets assigned": change("targets", lambda targets: targets * 0),
    "a target replaced": change_item("targets", 0, lambda targets: targets[1]),
    "data and targets filtered": lambda ds: (
        setattr(ds, "data", ds.data[::2]),
        setattr(ds, "targets", ds.targets[::2]),
    )[0],
}

LABELLED_ARRAYS: Mutations = {
    "data assigned": change("data", lambda data: data[::-1].copy()),
    "data shortened": change("data", lambda data: data[:3]),
    "an image replaced": change_item("data", 0, lambda data: data[1]),
    "labels assigned": change("labels", lambda labels: labels * 0),
    "a label replaced": change_item("labels", 0, lambda labels: 99),
}

FILE_SAMPLES = rearranged("_samples", "samples", "one sample", by=2, keep=3)

FILES: Mutations = {
    **rearranged("_image_files", "files", "one file", by=1, keep=2),
    "files as text": change("_image_files", lambda files: [str(file) for file in files]),
    **relabelled("_labels", "label"),
}

PETS: Mutations = {
    **rearranged("_images", "images", "one image", by=1),
    "masks reversed": change("_segs", lambda masks: masks[::-1]),
    "a label replaced": change_item("_labels", 0, lambda labels: 99),
}

SAMPLES: Mutations = {
    "samples reversed": change("samples", lambda samples: samples[::-1]),
    "samples as a list": change("samples", list),
    "samples shortened": change("samples", lambda samples: samples[:3]),
    "samples filtered": change("samples", lambda samples: [s for s in samples if s[1] == 1]),
    "samples emptied": change("samples", lambda samples: []),
    "one sample replaced": change_item("samples", 0, lambda samples: (samples[4][0], 17)),
    "samples replaced by slice": change_item("samples", slice(0, 2), lambda samples: [samples[5]]),
    "a sample deleted": lambda ds: ds.samples.__delitem__(2),
    "a sample appended": lambda ds: ds.samples.append(ds.samples[1]),
    "samples sorted": lambda ds: ds.samples.sort(key=lambda s: s[0][::-1]),
    "imgs changed in place": change_item("imgs", 1, lambda imgs: imgs[3]),
    "imgs assigned": change("imgs", lambda imgs: []),
    **relabelled("targets", "target"),
    "paths as Path": change("samples", lambda samples: [(Path(p), t) for p, t in samples]),
}

ARRAYS: Mutations = {
    "data assigned": change("data", lambda data: data[::-1].copy()),
    "data shortened": change("data", lambda data: data[:5]),
    "a row of data replaced": change_item("data", 0, lambda data: data[3]),
    **relabelled("targets", "target"),
    "targets as array": change("targets", np.asarray),
    "data and targets filtered": lambda ds: (
        setattr(ds, "data", ds.data[np.asarray(ds.targets) == 3]),
        setattr(ds, "targets", [t for t in ds.targets if t == 3]),
    ),
}

PATHS: Mutations = {
    **rearranged("images", "images", "one image", by=1, keep=2),
    **rearranged("targets", "targets", "one target", by=1),
}

NUMBERED: Mutations = {
    **rearranged("index", "numbers", "a number", by=1),
    **relabelled("y", "label"),
    "both filtered": lambda ds: (setattr(ds, "index", ds.index[::2]), setattr(ds, "y", ds.y[::2]))[0],
}

IMG_INFO: Mutations = {
    **rearranged("img_info", "images", "one image", by=2, keep=2),
    "a box changed in place": lambda ds: ds.img_info[2]["annotations"]["bbox"].zero_(),
}

IDS = rearranged("ids", "ids", "one id", by=1, keep=2)

CAPTIONS: Mutations = {
    **IDS,
    "annotations assigned": change("annotations", lambda annotations: {id: ["one"] for id in annotations}),
    "captions replaced": lambda ds: ds.annotations.__setitem__(ds.ids[0], ["another"]),
    "a caption appended": lambda ds: ds.annotations[ds.ids[1]].append("one more"),
}

IMGS: Mutations = {
    "imgs reversed": change("imgs", lambda imgs: imgs[::-1]),
    "imgs shortened": change("imgs", lambda imgs: imgs[:3]),
    "imgs emptied": change("imgs", lambda imgs: []),
    "one of imgs replaced": change_item("imgs", 0, lambda imgs: (imgs[4][0], 17)),
    "one of imgs deleted": lambda ds: ds.imgs.__delitem__(2),
    "targets assigned": change("targets", lambda targets: [0] * len(targets)),
}
