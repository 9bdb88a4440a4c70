"""`ImageFolderRecord` and `DatasetFolderRecord`: torchvision's classes over the records beside a tree."""

import glob
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
from numpy.typing import NDArray
from torchvision.datasets.folder import IMG_EXTENSIONS, DatasetFolder, default_loader

from recordzoo.base.settings import command
from recordzoo.base.text import quote
from recordzoo.errors import ArgumentError, FolderError, OtherSourceError
from recordzoo.families.folders import ClassFolderDataset, Loader
from recordzoo.families.record_set import RecordDataset, empty_classes, open_images
from recordzoo.families.selection import Selection, join_name
from recordzoo.net.url import Url, is_url
from recordzoo.preparing.changes import find_changes, refuse_other, warn_of_changes
from recordzoo.preparing.options import Options, PrepareOptions
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.declared import are_splits, class_folder_order, raise_if_empty
from recordzoo.recipes.folders import FolderRecipe, like_splits, no_class_folder, selection_digest, without_record_sets
from recordzoo.recipes.recipe import Recipe
from recordzoo.recipes.variant import check_variant, variant_recipe
from recordzoo.records.manifest import ORIGINAL, SetKind
from recordzoo.records.reader import RecordReader, is_record_set

logger = logging.getLogger("recordzoo")


class Wanted(NamedTuple):
    """Which files of a tree are samples: torchvision's arguments; `extensions` is None if a function decides."""

    extensions: str | Sequence[str] | None
    is_valid_file: Callable[[str], bool] | None
    allow_empty: bool


class TreeDataset(ClassFolderDataset, DatasetFolder):  # type: ignore[misc]  # torchvision is untyped
    """What `ImageFolderRecord` and `DatasetFolderRecord` share: which files are samples, and which records hold them.

    The images of the whole tree have records beside it. Any other selection of files is a view of these where they
    hold them all; else it has records of its own.
    """

    _reader: RecordReader | None = None
    _variant: str | None = None

    def _show_tree(self, root: str | os.PathLike[str], wanted: Wanted, loader: Loader, options: Options) -> None:
        """Open the records with the samples, make them if needed, and show them. Arguments as in the constructor."""
        self._variant = options.variant
        self._refuse_url_of_tree(root)
        folder = os.path.expanduser(os.fspath(root))
        is_given = is_record_set(Path(folder))
        is_every_image = wanted.is_valid_file is None and wanted.extensions == IMG_EXTENSIONS and not self._overrides()
        has_tree = not is_given and _has_folders(Path(folder))
        whole = None
        if is_every_image and is_given:
            whole = self._open_given(folder, options)
        elif is_every_image:
            whole = self._open_whole(folder, wanted.allow_empty, options, has_tree)
        if whole is not None:  # nothing here looks at each sample
            selection = Selection(whole)
            if not wanted.allow_empty:
                raise_if_empty(empty_classes(whole), IMG_EXTENSIONS)
        else:
            selection = (self._select if has_tree else self._select_stored)(folder, wanted, options)
        self._reader = selection.reader
        self._show_files(selection, folder, loader, allow_empty=True)
        self.extensions = wanted.extensions
        if not is_given and not self._overrides():
            _warn_of_splits(selection.reader.manifest.classes or (), folder, type(self).__name__)

    def _recipe(self, tree: Path, names: Sequence[str] | None = None, *, allow_empty: bool = True) -> Recipe:
        """Return the recipe of a tree, or of some of its files, in the requested variant."""
        return variant_recipe(FolderRecipe(names, allow_empty=allow_empty), tree, self._variant)

    def _overrides(self) -> bool:
        """Whether a subclass overrides the search for classes or samples."""
        kind = type(self)
        return kind.find_classes is not TreeDataset.find_classes or kind.make_dataset is not DatasetFolder.make_dataset

    def _refuse_url_of_tree(self, root: str | os.PathLike[str]) -> None:
        """Raise if a tree would have to be scanned at a URL."""
        if is_url(root) and (self._overrides() or not isinstance(self, RecordDataset)):
            url = Url.parse(root)
            raise ArgumentError(
                f"{type(self).__name__} selects files of a tree, and {url} is a URL. Open it with recordzoo.open, or "
                f"run: {command('pull', url)}"
            )

    def _open_given(self, folder: str, options: Options) -> RecordReader | None:
        """Open the root as a record set, if it holds all images of a tree; None if it holds anything else."""
        reader = open_images(Path(folder).resolve())
        if reader.manifest.kind is not SetKind.FOLDER or reader.manifest.metadata.get("selection"):
            return None
        return self._as_variant(reader, options)

    def _open_whole(self, folder: str, allow_empty: bool, options: Options, has_tree: bool) -> RecordReader:
        """Open the records of all images of the tree; make them if needed."""
        tree = Path(folder).resolve()
        whole = self._recipe(tree, allow_empty=allow_empty)
        explicit, refresh = _explicit(options), options.refresh
        place = explicit or whole.target(tree)
        is_there = is_record_set(place)
        if not is_there or (has_tree if refresh == "if-changed" else refresh):
            if self._variant is None and (not is_there or refresh is True):  # others may be made of its records
                self.find_classes(self.root)  # the same error as torchvision's if there is nothing to scan
                _say_if_annotated(tree)
            ensure(whole, tree, options, records_dir=place)
            for remark in whole.remarks() if isinstance(whole, FolderRecipe) else ():
                logger.warning("%s: %s", tree, remark.removeprefix("warning: "))
        reader = self._own_reader(place, tree, has_tree)
        if explicit is not None and reader.manifest.metadata.get("selection"):
            raise OtherSourceError(
                f"{place} holds a selection of the images of {tree}, not all of them. Pass another records_dir, or "
                "none.",
                path=str(place),
            )
        _check_tree(reader, tree, whole, explicit=explicit is not None)  # a new variant: of a set that may be older
        return reader

    def _select(self, folder: str, wanted: Wanted, options: Options) -> Selection:
        """Show the samples of torchvision's scan of the tree; make records of them if there are none."""
        samples = self._scanned(wanted)
        names = [_relative(path, folder) for path, _ in samples]
        tree = Path(folder).resolve()
        whole, selected, explicit = self._recipe(tree), self._recipe(tree, names), _explicit(options)
        place, compare = explicit or whole.target(tree), options.refresh == "if-changed"
        # The records of the whole tree serve if they hold all of these files.
        may_serve = is_record_set(place) and (not options.refresh or (compare and explicit is None))
        choices = [(whole, place)] if may_serve else []
        if explicit is None or not may_serve:
            choices.append((selected, explicit or selected.target(tree)))
        for recipe, place in choices:
            if recipe is selected or compare:
                ensure(recipe, tree, options, records_dir=place)
            reader = self._own_reader(place, tree, has_tree=True)
            positions = positions_of(names, reader.names)
            if positions is not None:
                # The names of the samples were just listed and found.
                _check_tree(reader, tree, whole, explicit=explicit is not None, new_names=False)
                return _selection(reader, positions, samples)
        raise OtherSourceError(
            f"{place} does not hold all of the {len(names)} files that are selected in {tree}. Pass another "
            "records_dir, or none.",
            path=str(place),
        )

    def _select_stored(self, folder: str, wanted: Wanted, options: Options) -> Selection:
        """The tree is gone: show the samples that torchvision's scan would select among the stored names."""
        best: tuple[RecordReader, list[tuple[int, Any]]] | None = None
        for reader in self._stored_sets(Path(folder).resolve(), options):
            self._reader = reader
            _, class_to_idx = self.find_classes(self.root)
            found = list(_stored_samples(reader, folder, class_to_idx, wanted))
            stored_as = reader.manifest.metadata.get("selection")
            # A selection counts only if all of it is there. The largest wins: a smaller one would match, too.
            partial = stored_as and stored_as != selection_digest([reader.names[position] for position, _ in found])
            if not partial and (best is None or len(found) > len(best[1])):
                best = reader, found
        if best is None:
            self._reader = None
            self.find_classes(self.root)  # raises: there is no tree
            raise FolderError(f"{folder} is not there, and no records of this selection are beside it.", path=folder)
        self._reader, found = best
        self.classes, self.class_to_idx = self.find_classes(self.root)
        if not wanted.allow_empty:
            labels = {label for _, label in found}
            empty = [name for name, label in self.class_to_idx.items() if label not in labels]
            raise_if_empty(empty, wanted.extensions)
        return _selection(self._reader, np.array([position for position, _ in found], np.int64), found)

    # Any: labels are whatever an overridden find_classes returns.
    def _scanned(self, wanted: Wanted) -> list[tuple[str, Any]]:
        try:
            self.classes, self.class_to_idx = self.find_classes(self.root)
            found = self.make_dataset(self.root, class_to_idx=self.class_to_idx, **wanted._asdict())
        except FileNotFoundError as err:
            raise err if isinstance(err, FolderError) else FolderError(str(err)) from err
        return cast(list[tuple[str, Any]], found)

    def _stored_sets(self, tree: Path, options: Options) -> Iterator[RecordReader]:
        """Open the record sets of a tree that is gone: its selections first, then the whole."""
        explicit = _explicit(options)
        if is_record_set(tree):
            yield self._as_variant(open_images(tree), options)
        elif explicit is not None:
            yield open_images(explicit)
        else:
            whole = self._recipe(tree).target(tree)
            ending = whole.name.removeprefix(tree.name)
            places = [*sorted(tree.parent.glob(f"{glob.escape(tree.name)}-????????{ending}")), whole]
            for reader in map(open_images, filter(is_record_set, places)):
                if reader.manifest.variant == (self._variant or ORIGINAL):
                    yield reader

    def _own_reader(self, place: Path, tree: Path, has_tree: bool) -> RecordReader:
        """Open the records of a tree; raise if the tree exists and they belong to another dataset."""
        reader = open_images(place)
        check_variant(reader, self._variant)
        if reader.manifest.kind is not SetKind.FOLDER and has_tree:
            raise OtherSourceError(
                f"{place} is a record set of {reader.manifest.title}, not of the tree {tree}. Pass it as root to open "
                "it; or another records_dir, for records of the tree.",
                path=str(place),
            )
        return reader

    # Any: torchvision declares it so.
    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[Any], dict[Any, int]]:
        """Find the classes of a directory; those of the records for our own root when the tree is gone.

        Record sets in the directory are no classes.

        Raises:
            FolderError: There is no such directory, or no class in it.
        """
        reader = self.__dict__.get("_reader")
        root = Path(self.root).expanduser()
        is_own = os.fspath(directory) == os.fspath(self.root)
        if reader is not None and is_own and (is_record_set(root) or not _has_folders(root)):
            classes = list(reader.manifest.classes or ())
            return classes, {name: label for label, name in enumerate(classes)}
        try:
            found, _ = DatasetFolder.find_classes(self, directory)
        except FileNotFoundError as err:
            if Path(directory).is_dir():
                raise no_class_folder(directory) from err
            raise FolderError(str(err), path=os.fspath(directory)) from err
        classes = without_record_sets(Path(directory), found)
        if not classes:
            raise no_class_folder(directory)
        return classes, {name: label for label, name in enumerate(classes)}


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
        transform: Applied to the image.
        target_transform: Applied to the target.
        loader: Makes an image of a path. torchvision's own decodes the stored bytes.
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
        of_sets: dict[str, Any] = {"split": split, "target_type": target_type}
        is_given = not is_url(root) and is_record_set(Path(root).expanduser())
        is_whole = split is not None or target_type is not None or not self._overrides()
        if is_url(root) or (is_given and (is_whole or RecordReader(Path(root).expanduser()).manifest.is_listed)):
            self._refuse_url_of_tree(root)
            super().__init__(
                root, transform, target_transform, loader, is_valid_file, allow_empty, **of_sets, **options
            )
            return
        chosen = self._chosen(options)
        for name, value in of_sets.items():
            if value is not None:
                raise ArgumentError(
                    f"Argument {name} is {value!r}, but {root} is not a record set. Pass the path of one; for a "
                    "split of a tree, the folder of the split."
                )
        self.target_type = None
        self._start(root, transform=transform, target_transform=target_transform)
        wanted = Wanted(IMG_EXTENSIONS if is_valid_file is None else None, is_valid_file, allow_empty)
        self._show_tree(root, wanted, loader, chosen)


def _say_if_annotated(tree: Path) -> None:
    """Say if `prepare` would not take the folders of a tree for classes, as torchvision's class does."""
    from recordzoo.own.annotated import doubt_of

    if tree.is_dir() and (doubt := doubt_of(tree)):
        logger.warning("%s: its folders are classes here. It %s; prepare would not take them for classes.", tree, doubt)


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
        self._show_tree(root, Wanted(extensions, is_valid_file, allow_empty), loader, chosen)


def positions_of(names: Sequence[str], stored: Sequence[str]) -> NDArray[np.int64] | None:
    """Find the position of each name in `stored`, which is in ImageFolder's order; None if one is missing.

    One walk along both, sorted: a look-up table of a million names would cost more than the names.
    """
    positions = np.empty(len(names), np.int64)
    walk = enumerate(stored)
    position, current = -1, None
    for index in class_folder_order(names).tolist():
        while current != names[index]:
            found = next(walk, None)
            if found is None:
                return None
            position, current = found
        positions[index] = position
    return positions


def _has_folders(root: Path) -> bool:
    """Whether there is anything to scan; an empty mount point is a tree that is gone."""
    return root.is_dir() and any(path.is_dir() for path in root.iterdir())


def _explicit(options: Options) -> Path | None:
    """Return the path of the records, if given."""
    return None if options.records_dir is None else Path(options.records_dir).expanduser().absolute()


def _check_tree(reader: RecordReader, tree: Path, whole: Recipe, *, explicit: bool, new_names: bool = True) -> None:
    """Warn if a tree has changed since its records were made."""
    changes = find_changes(reader, tree, new_names=new_names)
    if explicit:
        refuse_other(reader, changes)
    if changes:
        output = f" --output {quote(str(reader.folder))}" if explicit and new_names else ""  # not of a selection
        warn_of_changes(reader, changes, f"{whole.command(tree)}{output}", stacklevel=5)


def _warn_of_splits(classes: Sequence[str], folder: str, kind: str) -> None:
    """Warn if the classes of a tree are named like splits."""
    if are_splits(classes) or like_splits(classes):
        warnings.warn(
            f"{folder}: its classes are {', '.join(classes)}, which look like splits. Like torchvision, "
            f"{kind} takes each folder as a class; for one split, open {os.path.join(folder, classes[0])}.",
            stacklevel=4,
        )


def _selection(reader: RecordReader, positions: NDArray[np.int64], samples: Sequence[tuple[Any, Any]]) -> Selection:
    targets = np.array([label for _, label in samples], np.int64)
    whole = len(positions) == len(reader) and bool((positions == np.arange(len(reader))).all())
    if whole and np.array_equal(targets, reader.array("target")):
        return Selection(reader)
    return Selection(reader, positions=positions, targets=targets)


def _relative(path: str, folder: str) -> str:
    start = os.path.join(folder, "")
    name = path[len(start) :].replace(os.sep, "/")
    if not path.startswith(start) or {"..", ".", ""}.intersection(name.split("/")):
        raise FolderError(f"{path} is not inside a class folder of {folder}; records hold only such files.", path=path)
    return name


# Any: labels, as above.
def _stored_samples(
    reader: RecordReader, folder: str, class_to_idx: Mapping[str, Any], wanted: Wanted
) -> Iterator[tuple[int, Any]]:
    """As torchvision's make_dataset, with stored names instead of the tree: (position, label)."""
    is_valid, extensions = wanted.is_valid_file, wanted.extensions or ()
    endings = extensions if isinstance(extensions, str) else tuple(extensions)
    of_class: dict[str, list[int]] = {}
    for position, name in enumerate(reader.names):
        of_class.setdefault(name.partition("/")[0], []).append(position)
    for kind in sorted(class_to_idx):
        for position in of_class.get(kind.partition("/")[0], ()):
            name = reader.names[position]
            if not name.startswith(f"{kind}/"):
                continue
            path = join_name(folder, name)
            if is_valid(path) if is_valid is not None else name.lower().endswith(endings):
                yield position, class_to_idx[kind]
