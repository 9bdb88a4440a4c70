"""Make samples with joint transforms of image and target."""

import functools
from typing import Any

from recordzoo.loader.leaf import JointLeaf
from recordzoo.loader.samples import Made, Rows, SampleMaker
from recordzoo.loader.work import BatchPiece, Opened
from recordzoo.transforms.joint import frame_of
from recordzoo.transforms.steps import num_draws

# Any, here and below: images and targets have the types that the transforms return.


class JointMaker(SampleMaker):
    """A `SampleMaker` for datasets with joint transforms of image and target."""

    def made(self, piece: BatchPiece) -> Made:
        """Make the samples of a piece; images of one size share one tensor."""
        together = Rows(len(piece), self.allocate)
        samples = [self._sample(piece, number, together) for number in range(len(piece))]
        return Made([image for image, _ in samples], [target for _, target in samples], None, piece)

    def _sample(self, piece: BatchPiece, number: int, together: Rows) -> tuple[Any, Any]:
        leaf, index = self.source.leaves[piece.leaves[number]], int(piece.inner[number])
        if not isinstance(leaf, JointLeaf):
            made = super().made(piece.of([number]))
            return made.images[0], made.targets[0]
        image, target = leaf.sample(index)
        seeding, draws = functools.partial(self.seeding, piece, number), piece.draws[number].tolist()
        frame = frame_of(image)
        if frame is None or not leaf.plan.takes(target, (frame.height, frame.width)):
            plain = leaf.as_plain(image, index)
            with seeding(), leaf.noting(index):
                sample: tuple[Any, Any] = leaf.plan.transforms(plain, target)
            return sample
        with self.seeding(piece, number, -1), leaf.noting(index):  # as `SampleMaker` seeds a target
            actions, target = leaf.plan.decide(frame, target, draws)
        own = num_draws(leaf.plan.image.steps)
        (image,) = self.images_of(
            [Opened(leaf, index, leaf.plan.image, frame, actions, draws[own:])], [seeding], together
        )
        with seeding(), leaf.noting(index):
            for transform in leaf.plan.rest:
                image, target = transform(image, target)
        return image, target
