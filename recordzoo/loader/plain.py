"""Read the files of torchvision's datasets that list paths and labels."""

from collections.abc import Callable
from typing import Any

from torchvision import datasets, get_image_backend
from torchvision.datasets.folder import default_loader
from torchvision.datasets.vision import StandardTransform

from recordzoo.loader.stores import Files

# Any, in all of this module: datasets and transforms have the user's types.
Look = Callable[[int], tuple[Any, Any]]
"""Returns a sample's path and its target, before all transforms."""

_WITH_LOADER = (
    datasets.CLEVRClassification,
    datasets.DatasetFolder,  # includes ImageFolder, ImageNet, EuroSAT, Country211
    datasets.DTD,
    datasets.FGVCAircraft,
    datasets.Flickr30k,
    datasets.Flickr8k,
    datasets.Flowers102,
    datasets.Food101,
    datasets.INaturalist,
    datasets.Imagenette,
    datasets.LFWPeople,
    datasets.Omniglot,
    datasets.Places365,
    datasets.RenderedSST2,
    datasets.StanfordCars,
    datasets.SUN397,
)
"""Classes whose ``__getitem__`` calls ``self.loader`` with the path, then the transforms, and does nothing else."""

_OPENING: dict[type, Callable[[Any, int], tuple[Any, Any]]] = {
    datasets.GTSRB: lambda dataset, index: dataset._samples[index],
    datasets.OxfordIIITPet: lambda dataset, index: (dataset._images[index], _pet(dataset, index)),
}
"""Classes that do the same with ``PIL.Image.open(path).convert("RGB")``, with their functions for path and target."""

_WITH_TRANSFORMS = (datasets.Places365, datasets.OxfordIIITPet)
"""Those of both that call ``self.transforms``, and not ``self.transform`` and ``self.target_transform``."""


def read_plain(dataset: Any) -> tuple[Files, Any, Any] | str:
    """Return a dataset's files, transform and target_transform; or the reason why a loader cannot read the files."""
    kind: Any = type(dataset)
    known: Any = next((base for base in kind.__mro__ if base in _WITH_LOADER or base in _OPENING), None)
    if known is None or kind.__getitem__ is not known.__getitem__ or hasattr(kind, "__getitems__"):
        return f"{kind.__name__} makes its samples itself"
    transforms = dataset
    if known in _WITH_TRANSFORMS:
        transforms = StandardTransform() if dataset.transforms is None else dataset.transforms
        if type(transforms) is not StandardTransform:
            return "its transforms take image and target together"
    look = _look(dataset, known)
    return look if isinstance(look, str) else (Files(dataset, look), transforms.transform, transforms.target_transform)


def _look(dataset: Any, known: type) -> Look | str:
    if known in _OPENING:
        if known is datasets.OxfordIIITPet and "segmentation" in dataset._target_types:
            return "its targets are images"
        return lambda index: _OPENING[known](dataset, index)
    if get_image_backend() != "PIL":
        return "torchvision's image backend is not PIL"
    loader = "_loader" if known is datasets.LFWPeople else "loader"
    if vars(dataset).get(loader) is not default_loader:
        return "its loader is not torchvision's default_loader"
    # The class's own code gives path and target of an index: with a loader that returns its path.
    paths = object.__new__(type(dataset))
    vars(paths).update(vars(dataset) | {loader: _same, "transform": None, "target_transform": None, "transforms": None})
    look: Look = paths.__getitem__
    return look


def _same(path: Any) -> Any:
    return path


def _pet(dataset: Any, index: int) -> Any:
    labels = {"category": dataset._labels, "binary-category": dataset._bin_labels}
    targets = [labels[kind][index] for kind in dataset._target_types]
    return targets[0] if len(targets) == 1 else tuple(targets) or None
