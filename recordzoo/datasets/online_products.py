"""`OnlineProductsRecord`: Stanford Online Products, for retrieval and metric learning, from records."""

from collections.abc import Sequence
from typing import Literal, Unpack

from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.base.types import TrainTest
from recordzoo.families.base import Root, Transform
from recordzoo.families.derived import derived
from recordzoo.families.path_loader import Loader
from recordzoo.families.target_types import TargetTypesDataset
from recordzoo.preparing import PrepareOptions

ProductTarget = Literal["category", "super_category"]


class OnlineProductsRecord(TargetTypesDataset, ImageFolder):  # type: ignore[misc]  # torchvision is untyped
    """Stanford Online Products, read from records: photographs of products, in the order of the authors' lists.

    A label is the authors' number of the product, less 1. No product is in both splits: those of "train" are 0 to
    11,317, those of "test" 11,318 to 22,633.

    Args:
        root: Where ``Stanford_Online_Products/`` or its zip is or goes to; or the record set.
        split: "train" or "test".
        transform: Applied to the image.
        target_transform: Applied to the target.
        download: Download the archive if it is not there.
        loader: Makes an image of a path; torchvision's own decodes the stored bytes.
        target_type: What the target is, or a list of such names for a tuple of them: "category" (the product, int from
            0) or "super_category" (its kind, int from 0 to 11).
        **options: See `PrepareOptions`.

    Attributes:
        classes: The authors' numbers of all products, of both splits: "1", "2", ...

    Raises:
        ArgumentError: `split` or `target_type` has another value.
        NotPreparedError: There are no records and no raw data.

    Examples:
        >>> dataset = OnlineProductsRecord("data", "test", target_type=["category", "super_category"])
        >>> image, (product, kind) = dataset[0]
    """

    entry = "online_products"
    _TARGET_TYPES = ("category", "super_category")

    def __init__(
        self,
        root: Root,
        split: TrainTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        target_type: ProductTarget | Sequence[ProductTarget] = "category",
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._start(root, transform=transform, target_transform=target_transform)
        self._show_targets(split, target_type, "Stanford_Online_Products", loader, download=download, options=options)

    @derived
    def super_classes(self) -> list[str]:
        """The kinds of products in the order of their labels: "bicycle"."""
        return self._names_of("super_category")

    @override
    def _target(self, kind: str, position: int) -> int:
        return int(self._selection.reader.array(kind)[position])
