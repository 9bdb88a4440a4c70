"""torchvision's datasets of faces from records: CelebA, LFW and WIDER FACE."""

import os
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import CelebA, LFWPairs, LFWPeople, WIDERFace
from torchvision.datasets.folder import default_loader
from typing_extensions import override

from recordzoo.base.text import TrainValTest
from recordzoo.datasets.faces_recipe import LFW_FOLDERS, SECOND, lfw_list
from recordzoo.errors import ArgumentError
from recordzoo.families.base import Pair, Root, Transform, check_choice
from recordzoo.families.derived import derived
from recordzoo.families.files import Files, FilesDataset, PathsDataset
from recordzoo.families.folders import ClassFolderDataset, Loader, SplitDataset
from recordzoo.families.selection import Selection, join_name, list_paths, with_form
from recordzoo.images.decode import naming, open_picture
from recordzoo.preparing.options import PrepareOptions
from recordzoo.recipes.declared import find_name

_CELEBA_TARGETS = {"attr": "attr", "identity": "identity", "bbox": "bbox", "landmarks": "landmarks_align"}
"""For each target type, the tensor whose rows are the targets."""

CelebATarget = Literal["attr", "identity", "bbox", "landmarks"]


class CelebARecord(PathsDataset, CelebA):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `CelebA`, read from records.

    ``attr``, ``identity``, ``bbox`` and ``landmarks_align``, int64 tensors, are made on first access; from then on,
    changes to them show in the samples. Boxes are those of the original photographs, not of the aligned ones.

    Args:
        target_type: "attr" (40 attributes, 0 or 1), "identity", "bbox" or "landmarks", or a list of them; for an empty
            list the target is None.
        transforms: Applied to image and target, instead of the other two; landmarks are `KeyPoints` [5, 2] then.

    Raises:
        ArgumentError: As for all datasets; but a target type that does not exist is an error when a sample is taken.
    """

    _ENTRY = "celeba"
    _ITEMS = "filename"
    _IS_RGB = False
    target_type: Sequence[str]

    def __init__(
        self,
        root: Root,
        split: Literal["train", "valid", "test", "all"] = "train",
        target_type: list[CelebATarget] | CelebATarget = "attr",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.split = split
        self.target_type = target_type if isinstance(target_type, list) else [target_type]
        self._transforms_apart = bool(self.target_type)
        if not self.target_type and target_transform is not None:
            raise RuntimeError("target_transform is specified but target_type is empty")
        lower = split.lower() if isinstance(split, str) else split
        chosen = check_choice(lower, "split", ("train", "valid", "test", "all"))
        self._open_split(root, chosen, transform, target_transform, download, transforms=transforms, **options)
        images = os.path.join(self.root, self.base_folder, "img_align_celeba")
        self._files = {"image": Files("filename", "", ".jpg", within=images)}

    def _in_pixels(self) -> Sequence[str]:
        return ["target_type 'landmarks'"] if "landmarks" in self.target_type else []

    @derived
    def filename(self) -> list[str]:
        """The names of the files."""
        return self._paths("image")

    @derived
    def attr_names(self) -> list[str]:
        """The names of the attributes, and an empty one, as in torchvision."""
        return self._names_of("attr")

    @derived
    def attr(self) -> torch.Tensor:
        """The attributes, 0 or 1, [n, 40]."""
        return _tensor("attr", self._selection.array("attr"))

    @derived
    def identity(self) -> torch.Tensor:
        """The number of each person, [n, 1]."""
        return _tensor("identity", self._selection.array("identity"))

    @derived
    def bbox(self) -> torch.Tensor:
        """The boxes, x, y, width, height, [n, 4]."""
        return _tensor("bbox", self._selection.array("bbox"))

    @derived
    def landmarks_align(self) -> torch.Tensor:
        """The landmarks, x and y of each, [n, 10]."""
        return _tensor("landmarks_align", self._selection.array("landmarks_align"))

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image, target).

        Raises:
            ArgumentError: A target type does not exist.
        """
        image: Any = self._image(index)
        targets = [self._target(kind, index) for kind in self.target_type]
        if self._transforms_pairs:
            pairs = zip(self.target_type, targets, strict=True)
            targets = [with_form("points", t.reshape(-1, 2), image) if k == "landmarks" else t for k, t in pairs]
        elif not targets:  # nothing for `target_transform`
            return image if self.transform is None else self.transform(image), None
        target: Any = tuple(targets) if len(targets) > 1 else targets[0] if targets else None
        return self._transformed(image, target)

    def _target(self, kind: str, index: int) -> torch.Tensor:
        if kind not in _CELEBA_TARGETS:
            raise ArgumentError(f'Target type "{kind}" is not recognized.')
        name = _CELEBA_TARGETS[kind]
        if self._has(name) or type(index) is not int or not -len(self._selection) <= index < len(self._selection):
            rows: torch.Tensor = getattr(self, name)[index, :]
        else:
            position = self._selection.position(index % len(self._selection))
            rows = _tensor(name, self._selection.reader.array(name)[position])
        return rows[..., 0] if kind == "identity" else rows

    def __len__(self) -> int:
        return self._length("attr")


def _tensor(name: str, numbers: NDArray[np.integer]) -> torch.Tensor:
    """Make a tensor of stored numbers; attributes are stored as -1 and 1."""
    made = numbers.astype(np.int64)
    return torch.from_numpy((made + 1) // 2 if name == "attr" else made)


class _LFWRecord(FilesDataset):
    """Base of both classes: the arguments, and the choice of the split and record set."""

    _ENTRY = "lfw"
    _PATH = str
    base_folder: ClassVar[str]
    file_dict: ClassVar[dict[str, tuple[str, str, str]]]
    view: ClassVar[str]
    _ITEMS = "data"
    _LABELS = "targets"

    def __init__(
        self,
        root: Root,
        split: Literal["10fold", "train", "test"] = "10fold",
        image_set: Literal["original", "funneled", "deepfunneled"] = "funneled",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self.image_set = self._part = check_choice(image_set.lower(), "image_set", tuple(LFW_FOLDERS))
        _, self.filename, self.md5 = self.file_dict[self.image_set]
        self.split = check_choice(split.lower(), "split", ["10fold", "train", "test"])
        self.labels_file = lfw_list(self.view, self.split)
        root, shown = os.path.expanduser(root), f"{self.view}-{self.split}"
        self._open_split(root, shown, transform, target_transform, download, loader, **options)
        self.root = os.path.join(self.root, self.base_folder)
        self.images_dir = os.path.join(self.root, LFW_FOLDERS[self.image_set])

    def _required_files(self) -> Collection[str]:
        return (self.labels_file,)


class LFWPeopleRecord(_LFWRecord, LFWPeople):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `LFWPeople`, read from records; each image set is a record set of its own.

    The host of the dataset is gone. ``download=True`` downloads the images from a mirror. No mirror has the lists of
    people, which this class needs: the error says how to get them.

    Args:
        image_set: "original", "funneled" or "deepfunneled": how the faces are aligned.

    Raises:
        DownloadError: No address has one of the files; the text says how to get it.
    """

    view = "people"

    data = FilesDataset._image_files
    targets = FilesDataset._labels
    class_to_idx = ClassFolderDataset.class_to_idx


class LFWPairsRecord(_LFWRecord, LFWPairs):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `LFWPairs`, read from records; each image set is a record set of its own.

    The host of the dataset is gone. ``download=True`` takes the files from mirrors of the same bytes; of
    "deepfunneled" there is none, and it says how to get it.

    Args:
        image_set: "original", "funneled" or "deepfunneled": how the faces are aligned.
        transform: Applied to both images.
        target_transform: Applied to the target: 1 for one person, 0 for two.

    Raises:
        DownloadError: No address has one of the files; the text says how to get it.
    """

    view = "pairs"

    def _show(self, selection: Selection) -> None:
        super()._show(selection)
        self._second = Selection(selection.reader, selection.split + SECOND)

    @derived
    def data(self) -> list[tuple[str, str]]:
        """The paths of both images of each pair."""
        first, second = (list_paths(each, self.images_dir, ".jpg") for each in (self._selection, self._second))
        return list(zip(first, second, strict=True))

    @derived
    def pair_names(self) -> list[tuple[str, str]]:
        """The people of each pair."""
        both = (self._selection.names(), self._second.names())
        return [(first.partition("/")[0], second.partition("/")[0]) for first, second in zip(*both, strict=True)]

    @derived
    def targets(self) -> list[int]:
        """1 for a pair of one person, 0 for one of two."""
        same: list[int] = (self._selection.targets() == self._second.targets()).astype(int).tolist()
        return same

    # Any: what the loader and the transforms make of them.
    def __getitem__(self, index: int) -> tuple[Any, Any, Any]:  # type: ignore[override]  # the families' are of two
        """Return (first image, second image, 1 for one person or 0 for two)."""
        number = self._as_opened("data", index)
        if number is None:
            first, second = self.data[index]
            images: list[Any] = [self.loader(first), self.loader(second)]
        else:
            images = [self._loader.load(position) for position in self._positions_of(number)]
        target = self._label_at(index)
        if self.transform is not None:
            images = [self.transform(image) for image in images]
        if self.target_transform is not None:
            target = self.target_transform(target)
        return images[0], images[1], target

    # Any: whatever the user assigned.
    @override
    def _label_at(self, index: int) -> Any:
        number = self._as_opened("targets", index)
        if number is None:
            return self.targets[index]
        return int(self._selection.target(number) == self._second.target(number))

    def _positions_of(self, number: int) -> Sequence[int]:
        return self._selection.position(number), self._second.position(number)


# The columns of an annotation file as torchvision names them; its authors' readme has `invalid` before `occlusion`.
_WIDER_COLUMNS = {"blur": 4, "expression": 5, "illumination": 6, "occlusion": 7, "pose": 8, "invalid": 9}

# Any: a path, and the tensors of its faces.
Info = dict[str, Any]


class WIDERFaceRecord(SplitDataset[TrainValTest], WIDERFace):  # type: ignore[misc]  # torchvision is untyped
    """torchvision's `WIDERFace`, read from records; each split is a record set of its own.

    Like torchvision's class, it takes the last three columns of the annotations for occlusion, pose and invalid; the
    authors' readme says invalid, occlusion, pose.

    Args:
        split: "train", "val" or "test", whose targets are None.
        target_transform: Applied to the target, a dict of tensors.
        transforms: Applied to image and target, instead of the other two; "bbox" is `BoundingBoxes` [n, 4] then.
    """

    _ENTRY = "wider_face"
    _HAS_TEXT_ROOT = True
    _SPLIT = "split"
    _ITEMS = "img_info"
    _HAS_TENSORS = True
    _transforms_apart = True

    def __init__(
        self,
        root: Root,
        split: TrainValTest = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        *,
        transforms: Transform = None,
        **options: Unpack[PrepareOptions],
    ) -> None:
        self._choose_split(split)
        self._open_split(root, split, transform, target_transform, download, transforms=transforms, **options)
        self.root = os.path.join(self.root, self.BASE_FOLDER)
        self._folder = os.path.abspath(os.path.join(self.root, f"WIDER_{split}", "images"))

    def _in_pixels(self) -> Sequence[str]:
        return [] if self.split == "test" else ["the target"]

    @derived
    def img_info(self) -> list[Info]:
        """A dict for each image: its path, and its annotations unless it is a test image."""
        return list(map(self._info, self._selection.all_positions().tolist()))

    def _info(self, position: int) -> Info:
        reader = self._selection.reader
        info: Info = {"img_path": join_name(self._folder, reader.names[position])}
        if self.split != "test":
            with naming(reader.path, info["img_path"]):
                lines = reader.read("annotation", position).splitlines()[1:]
                # Several times as fast as torch.tensor.
                faces = torch.from_numpy(np.array([list(map(int, line.split())) for line in lines], np.int64))
                columns = {name: faces[:, column].clone() for name, column in _WIDER_COLUMNS.items()}
            info["annotations"] = {"bbox": faces[:, :4].clone(), **columns}
        return info

    def __getitem__(self, index: int) -> Pair:
        """Return (PIL image, target); the target is None for a test image."""
        position = self._position(index)
        info = self.img_info[index] if position is None or self._has("img_info") else self._info(position)
        image = self._image(info["img_path"], position)
        target = None if self.split == "test" else info["annotations"]
        if self._transforms_pairs and target is not None:
            target = {**target, "bbox": with_form("XYWH", target["bbox"], image)}
        return self._transformed(image, target)

    def _image(self, path: str, position: int | None) -> Image.Image:
        reader = self._selection.reader
        if position is None or not reader.has("image", position):
            return Image.open(path)  # one that was assigned; or FileNotFoundError: the raw data lacked it
        with naming(reader.path, path):
            image = open_picture(reader, position)
            image.load()
            return image

    def _position(self, index: int) -> int | None:
        number = None if "img_info" in self._made else self._as_opened("img_info", index)
        if number is not None:
            return self._selection.position(number)
        start = os.path.join(self._folder, "")
        path = os.fspath(self.img_info[index]["img_path"])
        return find_name(self._selection.reader.names, path.removeprefix(start)) if path.startswith(start) else None

    def _read_fields(self) -> Sequence[str]:
        return list(self._selection.reader.manifest.blobs)
