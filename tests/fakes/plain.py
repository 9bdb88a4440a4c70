"""`Plain`: datasets that torchvision lacks as people write them themselves, over an extracted tree."""

from collections.abc import Sequence
from typing import Any

from torchvision.datasets import ImageFolder, VisionDataset
from torchvision.datasets.folder import IMG_EXTENSIONS
from torchvision.datasets.utils import verify_str_arg


class Plain(ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """(path, label) samples as ImageFolder has them, and a method that reads other targets from the tree."""

    _kinds: tuple[str, ...] = ("category",)  # the first is the label

    # Any: ImageFolder's own arguments.
    def _begin(
        self, root: Any, transform: Any, target_transform: Any, loader: Any, target_type: str | Sequence[str]
    ) -> None:
        VisionDataset.__init__(self, root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, IMG_EXTENSIONS
        self.target_type: Any = target_type if isinstance(target_type, str) else list(target_type)
        for kind in [target_type] if isinstance(target_type, str) else target_type:
            verify_str_arg(kind, "target_type", type(self)._kinds)

    def _show(self, samples: list[tuple[str, int]], classes: list[str]) -> None:
        self.samples = self.imgs = samples
        self.targets = [label for _, label in samples]
        self.classes, self.class_to_idx = classes, {name: label for label, name in enumerate(classes)}

    def read_target(self, kind: str, path: str) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        sample = self.loader(path)

        def target_of(kind: str) -> Any:
            return label if kind == type(self)._kinds[0] else self.read_target(kind, path)

        several = isinstance(self.target_type, list)
        target = tuple(map(target_of, self.target_type)) if several else target_of(self.target_type)
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target
