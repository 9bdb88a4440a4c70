"""The WNIDs of ImageNet's 1,000 classes, sorted: the place of each is its label.

Sources of ``imagenet_wnids.txt``: hendrycks/imagenet-r eval.py and hendrycks/natural-adv-examples
eval_many_models.py, the same list; HaohanWang/ImageNet-Sketch scripts/sketchPath.txt gives 996 of them the same labels,
and mixes up two pairs of classes that share a name.
"""

import functools
from pathlib import Path


@functools.cache
def all_wnids() -> tuple[str, ...]:
    """Return the 1,000 WNIDs in the order of their labels."""
    return tuple(Path(__file__).with_name("imagenet_wnids.txt").read_text(encoding="ascii").split())
