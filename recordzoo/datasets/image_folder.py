"""`ImageFolderRecord` and `DatasetFolderRecord`: torchvision's classes over the records beside a tree."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

from torchvision.datasets.folder import IMG_EXTENSIONS, default_loader

from recordzoo.datasets.image_folder_tree import TreeDataset
from recordzoo.errors import ArgumentError
from recordzoo.families.folders import Loader
from recordzoo.families.record_set import RecordDataset
from recordzoo.net.url import is_url
from recordzoo.preparing.options import PrepareOptions
from recordzoo.records.reader import RecordReader, is_record_set


class ImageFolderRecord(TreeDataset, RecordDataset):
    """torchvision's `ImageFolder`, read from records.

    The first time, the images of `root` are copied into ``<root>.records`` beside it. From then on neither the scan
    nor the tree is needed. Images that `is_valid_file`, or an overridden `find_classes` or `make_dataset`, selects are
    a view of these records where they hold them all; else they get records of their own,
    ``<root>-<8 hex digits>.records``.

    An image that cannot be read, or a link to one that leads nowhere, is an error when the records are made;
    torchvision fails when it comes to that sample. Files that are no images never matter.

    ``samples``, ``imgs`` and ``targets`` are lists, made when they are first asked for. ``loader`` compares equal to
    the function that was given, but is not that function: compare with ``==``, not with ``is``.

    Args:
        root: The tree, one folder for each class; or a record set.
        is_valid_file: Which files are samples, by path; by default those that end as images do.
        allow_empty: Whether a class may be without samples.
        split: Only a split of the record set that `root` is, if it has any.
        target_type: The field of the record set that is the target, or a list of fields for a tuple of them: the
            columns of a table. Default: the set's own target.
        **options: See `PrepareOptions`; ``records_dir`` is exactly where the records are.

    Raises:
        FolderError: There is no tree and there are no records; or no class; or a class is empty. torchvision's words.
        NotPreparedError: There is too much to convert without being asked.
        OtherSourceError: `records_dir` holds the records of another tree or of another selection.
        ArgumentError: The record set has no such split or field.

    Examples:
        >>> dataset = ImageFolderRecord("photos")
        >>> image, label = dataset[0]
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Loader = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        split: str | None = None,
        target_type: str | Sequence[str] | None = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        is_given = not is_url(root) and is_record_set(Path(root).expanduser())
        chooses = split is not None or target_type is not None
        if is_url(root) or (is_given and (chooses or self._is_shown_as_it_is(Path(root).expanduser()))):
            self._refuse_url_of_tree(root)
            super().__init__(
                root,
                transform,
                target_transform,
                loader,
                is_valid_file,
                allow_empty,
                split=split,
                target_type=target_type,
                **options,
            )
            return
        chosen = self._chosen(options)
        if split is not None:
            raise ArgumentError(
                f"Argument split is {split!r}, but {root} is not a record set. Pass the path of a record set, or leave "
                "split out and pass the folder of the split."
            )
        if target_type is not None:
            raise ArgumentError(
                f"Argument target_type is {target_type!r}, but {root} is not a record set. Pass the path of one."
            )
        self.target_type = None
        self._start(root, transform=transform, target_transform=target_transform)
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        self._show_tree(root, extensions, loader, is_valid_file, allow_empty, chosen, is_given=is_given)

    def _is_shown_as_it_is(self, root: Path) -> bool:
        """Whether the record set `root` is shown whole: no subclass selects samples, or the user listed them."""
        return not self._overrides() or RecordReader(root).manifest.is_listed


class DatasetFolderRecord(TreeDataset):
    """torchvision's `DatasetFolder`, read from records: files of any kind, which a loader of yours opens.

    The first time, the selected files are copied into ``<root>-<8 hex digits>.records`` beside the tree; if they are
    all its images, or some of those that `ImageFolderRecord` has stored, its records serve. As long as the tree is
    there it is scanned each time, as torchvision does, and a loader gets the paths of its files. When the tree is gone
    a loader gets the path of a temporary file with the stored bytes, in memory on Linux, whose name is the file's.
    torchvision's own loaders always decode the stored bytes.

    Args:
        root: The tree, one folder for each class; or a record set.
        loader: Makes a sample of a path.
        extensions: What the names of samples end with, in lower case.
        transform: Applied to the sample.
        is_valid_file: Which files are samples, by path; instead of `extensions`.
        allow_empty: Whether a class may be without samples.
        **options: See `PrepareOptions`; ``records_dir`` is exactly where the records are.

    Raises:
        ArgumentError: Neither `extensions` nor `is_valid_file` is given, or both are.
        FolderError: There is no tree and there are no records; or no class; or a class is empty. torchvision's words.
        NotPreparedError: There is too much to convert without being asked.
        OtherSourceError: `records_dir` holds the records of another tree or of another selection.

    Examples:
        >>> dataset = DatasetFolderRecord("photos", loader=os.path.getsize, extensions=(".jpg", ".png"))
        >>> size, label = dataset[0]
    """

    # Any: a loader returns what its user wants.
    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        **options: Unpack[PrepareOptions],
    ) -> None:
        chosen = self._chosen(options)
        if (extensions is None) == (is_valid_file is None):
            raise ArgumentError("Both extensions and is_valid_file cannot be None or not None at the same time")
        self._start(root, transform=transform, target_transform=target_transform)
        is_given = not is_url(root) and is_record_set(Path(root).expanduser())
        self._show_tree(root, extensions, loader, is_valid_file, allow_empty, chosen, is_given=is_given)
