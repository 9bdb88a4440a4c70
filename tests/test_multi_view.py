"""Several views of one image: each is what its own transform makes, and the image is decoded once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision import transforms as v1

from recordzoo import ImageFolderRecord, MultiView, RecordLoader
from recordzoo.errors import ArgumentError
from recordzoo.images.decode import JpegFrame, decode_rgb, open_raw
from recordzoo.loader.loader import batch_options
from recordzoo.loader.making import uniforms
from recordzoo.loader.plan import decide
from recordzoo.loader.render import render
from recordzoo.loader.samples import RowMaker, maker_of, with_values
from recordzoo.loader.table import read_plan
from tests.batching import FIXED, RANDOM, UINT8, assert_same, image_file

pytestmark = pytest.mark.usefixtures("threads")

# Any: transforms and batches of all kinds.
SMALL = v1.Compose([v1.RandomResizedCrop(12, scale=(0.1, 0.3)), v1.RandomHorizontalFlip(), v1.ToTensor()])
CENTER = v1.Compose([v1.CenterCrop(40), v1.Resize((16, 20)), v1.ToTensor()])


class TwoCrops:
    """As MoCo has it, with what tells a loader of its views."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> list[Any]:
        return [self.transform(image), self.transform(image)]

    def image_views(self) -> list[Any]:
        return [self.transform] * 2


class Pairs(MultiView):
    """As people write it: only the constructor is theirs."""

    def __init__(self, transform: Any) -> None:
        super().__init__([transform] * 2)


class Stacked(MultiView):
    """A subclass may do something else."""

    def __call__(self, image: Any) -> Any:
        return torch.stack(super().__call__(image))


TRANSFORMS = {
    "fused": v1.Compose([MultiView([FIXED, CENTER])]),
    "one is not": v1.Compose([MultiView([UINT8, CENTER, v1.Compose([FIXED, v1.Lambda(torch.neg)])])]),
    "stacked": Stacked([FIXED, FIXED]),
    "does not tell": lambda image: [UINT8(image), FIXED(image)],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_batches_of_dataloader(tree: Path, name: str) -> None:
    dataset = ImageFolderRecord(tree, transform=TRANSFORMS[name])
    assert_same(list(RecordLoader(dataset, 8, num_workers=2)), list(DataLoader(dataset, 8)))
    assert_same(list(RecordLoader(dataset, None)), list(DataLoader(dataset, None)))


def test_random_views_are_crops_of_the_whole_image(tree: Path) -> None:
    """Each is decided from numbers of its own; its pixels are those of its crop of the image, decoded as a whole."""
    dataset = ImageFolderRecord(tree, transform=MultiView([RANDOM, SMALL]))
    loader = RecordLoader(dataset, 41, seed=2)
    assert isinstance(maker_of(batch_options(loader)), RowMaker)
    (views, _) = next(iter(loader))
    plans = [read_plan(each) for each in (RANDOM, SMALL)]
    draws = uniforms(2, 0, np.arange(41), sum(plan.num_draws for plan in plans))
    for number, row in enumerate(draws.tolist()):
        data = image_file(int(Path(dataset.samples[number][0]).stem))
        image = open_raw(np.asarray(decode_rgb(data)))
        for plan, view in zip(plans, views, strict=True):
            right = render(image, decide(plan.steps, (image.height, image.width), row), "exact")
            assert torch.equal(view[number], with_values(plan, right))
            row = row[plan.num_draws :]


@pytest.mark.needs("turbojpeg")
@pytest.mark.parametrize("kind", [TwoCrops, Pairs])
def test_two_crops_of_one_decoding(kind: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    pixels = JpegFrame.pixels
    monkeypatch.setattr(JpegFrame, "pixels", lambda self, *box: (decoded.append(box), pixels(self, *box))[1])
    dataset = ImageFolderRecord(tree, transform=kind(SMALL))
    ((one, other), labels), *_ = RecordLoader(dataset, 41, seed=1, num_workers=1)
    assert one.shape == other.shape == (41, 3, 12, 12)
    assert not torch.equal(one, other)
    assert len(labels) == 41
    assert len(decoded) == sum(number % 7 != 6 for number in range(41))  # the JPEGs
    assert all(box and box[0] is not None for box in decoded)  # only what the views need


@pytest.mark.parametrize("views", [FIXED, [FIXED, 3], None])
def test_what_is_no_list_of_transforms(views: Any) -> None:
    with pytest.raises(ArgumentError, match="is no list of transforms"):
        MultiView(views)
