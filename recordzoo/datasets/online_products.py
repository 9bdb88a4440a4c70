"""`OnlineProductsRecord`: Stanford Online Products, for retrieval and metric learning, from records."""

from typing import Literal

from torchvision.datasets import ImageFolder
from typing_extensions import override

from recordzoo.base.text import TrainTest
from recordzoo.families.base import derived
from recordzoo.families.folders import TargetTypesDataset

ProductTarget = Literal["category", "super_category"]


class OnlineProductsRecord(TargetTypesDataset[TrainTest, ProductTarget], ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Stanford Online Products, read from records: photographs of products, in the order of the authors' lists.

    A label is the authors' number of the product, less 1. No product is in both splits: those of "train" are 0 to
    11,317, those of "test" 11,318 to 22,633.

    Args:
        target_type: What the target is, or a list of such names for a tuple of them: "category" (the product, int from
            0) or "super_category" (its kind, int from 0 to 11).

    Attributes:
        classes: The authors' numbers of all products, of both splits: "1", "2", ...

    Examples:
        >>> dataset = OnlineProductsRecord("data", "test", target_type=["category", "super_category"])
        >>> image, (product, kind) = dataset[0]
    """

    entry = "online_products"
    _TARGET_TYPES = ("category", "super_category")

    @derived
    def super_classes(self) -> list[str]:
        """The kinds of products in the order of their labels: "bicycle"."""
        return self._names_of("super_category")

    @override
    def _target(self, kind: str, position: int) -> int:
        return int(self._selection.reader.array(kind)[position])
