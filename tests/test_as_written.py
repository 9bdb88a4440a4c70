"""What is not known runs as written: functions that a program replaced, transforms that cannot be read, own methods."""

import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from PIL import ExifTags, Image, ImageEnhance, ImageFile, ImageOps
from torch.utils.data import ConcatDataset, DataLoader
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.datasets import DatasetFolder, ImageFolder, folder, wrap_dataset_for_transforms_v2
from torchvision.transforms import functional, v2

from recordzoo import HasImageBytes, ImageFolderRecord, MultiView, RecordLoader, VOCSegmentationRecord
from tests import warm
from tests.batching import MEAN, STD, assert_same, image_file
from tests.fakes import voc
from tests.fakes.folder import write_tree

# Any, in all of this module: datasets, transforms, functions and batches of all kinds.

pytestmark = pytest.mark.slow

COUNT = 6
V1 = v1.Compose([v1.Resize(30), v1.CenterCrop(24), v1.ToTensor(), v1.Normalize(MEAN, STD)])
V2 = v2.Compose([v2.Resize(30), v2.CenterCrop(24), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree, with its record set."""
    names = {f"{number % 2}/{number}.{'png' if number == 3 else 'jpg'}": number for number in range(COUNT)}
    root = write_tree(tmp_path_factory.mktemp("written") / "photos", {n: image_file(i) for n, i in names.items()})
    ImageFolderRecord(root)
    return root


def assert_as_stock(dataset: Any, **options: Any) -> None:
    """The batches are those of the stock loader."""
    right = list(DataLoader(dataset, 3, **options))
    for num_workers in (0, 2):
        assert_same(list(RecordLoader(dataset, 3, num_workers=num_workers, **options)), right)


# Functions that a program replaced


def upside_down(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that the image that it returns is upside down; the wrapper has the function's names."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return found.transpose(Image.Transpose.ROTATE_180) if isinstance(found, Image.Image) else found.flip(-1)

    return wrapper


def other_label(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(self: Any, index: int) -> Any:
        image, label = function(self, index)
        return image, label + 100

    return wrapper


def always_there(function: Callable[..., Any]) -> Any:
    return staticmethod(lambda image, scale, ratio: (2, 3, 20, 10))


CROP = v1.Compose([v1.RandomResizedCrop(24), v1.ToTensor()])
COLORS = v1.Compose([v1.CenterCrop(24), v1.RandomInvert(1), v1.RandomAdjustSharpness(3, 1), v1.ToTensor()])

REPLACED: dict[str, tuple[Any, str, Callable[..., Any], Any]] = {
    "DatasetFolder.__getitem__": (DatasetFolder, "__getitem__", other_label, V1),
    "pil_loader": (folder, "pil_loader", upside_down, V1),
    "Image.open": (Image, "open", upside_down, V1),
    "Image.crop": (Image.Image, "crop", upside_down, V1),
    "Image.convert": (Image.Image, "convert", upside_down, V1),
    "Image.resize": (Image.Image, "resize", upside_down, V2),
    "ImageEnhance": (ImageEnhance.Sharpness, "enhance", upside_down, COLORS),
    "Resize.forward": (v1.Resize, "forward", upside_down, V1),
    "nn.Module": (torch.nn.Module, "__call__", upside_down, v1.Compose([v1.CenterCrop(24), v1.PILToTensor()])),
    "RandomResizedCrop.get_params": (v1.RandomResizedCrop, "get_params", always_there, CROP),
    "Compose.__call__": (v1.Compose, "__call__", upside_down, V1),
    "functional.resize": (functional, "resize", upside_down, V1),
    "the functions of PIL images": (torchvision.transforms._functional_pil, "crop", upside_down, V1),
    "v2.Resize.transform": (v2.Resize, "transform", upside_down, V2),
    "v2.Transform.forward": (v2.Transform, "forward", upside_down, V2),
    "v2.functional.to_image": (v2.functional, "to_image", upside_down, V2),
    "ConcatDataset": (ConcatDataset, "__getitem__", other_label, V1),
}
"""What is replaced, by what, and a transform that uses it."""


@pytest.mark.parametrize("kind", [ImageFolder, ImageFolderRecord])
@pytest.mark.parametrize("what", REPLACED)
def test_a_function_that_was_replaced_is_called(
    what: str, kind: Any, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, make, transform = REPLACED[what]
    dataset = kind(photos, transform)
    if what == "ConcatDataset":
        dataset = ConcatDataset([dataset])
    before = list(DataLoader(dataset, 3))
    assert_same([labels for _, labels in RecordLoader(dataset, 3)], [labels for _, labels in before])
    monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    after = list(DataLoader(dataset, 3))
    is_other = [not torch.equal(*pair) for a, b in zip(before, after, strict=True) for pair in zip(a, b, strict=True)]
    assert any(is_other) or kind is ImageFolderRecord  # which has its own `__getitem__`, and loads no file
    if any(is_other):
        assert "was replaced" in str(RecordLoader(dataset, 3))
    assert_as_stock(dataset)


def test_a_function_that_was_replaced_before_the_import(photos: Path) -> None:
    code = """
import functools, sys
from PIL import Image
from torchvision import transforms
from torchvision.datasets import folder
from torch.utils.data import DataLoader

def upside_down(function):
    @functools.wraps(function)
    def replaced(*args, **kwargs):
        return function(*args, **kwargs).transpose(Image.Transpose.ROTATE_180)
    return replaced

owner, name = {
    "convert": (Image.Image, "convert"), "forward": (transforms.Resize, "forward"),
    "resize": (transforms.functional, "resize"), "pil_loader": (folder, "pil_loader"),
}[sys.argv[1]]
setattr(owner, name, upside_down(getattr(owner, name)))

from recordzoo import RecordLoader

transform = transforms.Compose([transforms.Resize(30), transforms.CenterCrop(24), transforms.ToTensor()])
dataset = folder.ImageFolder(sys.argv[2], transform)
loader = RecordLoader(dataset, 6, num_workers=0)
assert sys.argv[1] + " was replaced" in str(loader)
assert all((one == other).all() for one, other in zip(next(iter(loader)), next(iter(DataLoader(dataset, 6)))))
"""
    for what in ("convert", "forward", "resize", "pil_loader"):
        ended = warm.run(code, what, str(photos))
        assert ended.returncode == 0, ended.stderr


def test_hooks_of_all_modules_are_called(photos: Path) -> None:
    dataset = ImageFolder(photos, v1.Compose([v1.CenterCrop(24), v1.ToTensor()]))
    hook = torch.nn.modules.module.register_module_forward_hook(lambda module, args, image: ImageOps.mirror(image))
    try:
        assert "it has a hook" in str(RecordLoader(dataset, 3))
        assert_as_stock(dataset)
    finally:
        hook.remove()
    assert "it has a hook" not in str(RecordLoader(dataset, 3))


def test_joint_transforms_that_were_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [v2.ToImage(), v2.Resize((24, 20)), v2.ToDtype({tv_tensors.Image: torch.float32, "others": None})]
    root = voc.build().write_tree(tmp_path)
    dataset = wrap_dataset_for_transforms_v2(VOCSegmentationRecord(root, transforms=v2.Compose(chain)))
    assert "fused: Resize" in str(RecordLoader(dataset, 3))
    monkeypatch.setattr(v2.Resize, "transform", upside_down(v2.Resize.transform))
    assert "Resize.transform was replaced" in str(RecordLoader(dataset, 3))
    assert_as_stock(dataset, collate_fn=list)


def test_what_a_program_adds_to_classes_of_pillow_does_not_count(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fastai, among others, adds methods and properties."""
    monkeypatch.setattr(Image.Image, "to_thumb", lambda self: self, raising=False)
    monkeypatch.setattr(Image.Image, "show", lambda self: None)
    assert "was replaced" not in str(RecordLoader(ImageFolder(photos, V1), 3))


# Transforms that cannot be read


class Raises:
    """Has no attributes but raises at the question."""

    def __call__(self, image: Any) -> Any:
        return v1.functional.to_tensor(v1.functional.center_crop(image, [24, 24]))

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} here")


def normalized(mean: Any, std: Any, kind: Any = v1) -> Any:
    transform = kind.Normalize([0.4], [0.2])
    transform.mean, transform.std = mean, std  # v2's constructor lists them
    return v1.Compose([v1.CenterCrop(24), v1.ToTensor(), transform])


def changed(transform: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(transform, name, value)
    return v1.Compose([v1.CenterCrop(24), transform, v1.ToTensor()])


CANNOT_BE_READ = {
    "tensors of one number": normalized(torch.tensor(0.4), torch.tensor(0.2)),
    "a mean for each pixel, v2": normalized(torch.rand(3, 24, 24), torch.rand(3, 24, 24) + 1, v2),
    "a std for each row": normalized(torch.zeros(1, 24, 1), torch.rand(1, 24, 1) + 1),
    "an array": normalized(np.full((3, 1, 1), 0.5), np.full((3, 1, 1), 0.25)),
    "attributes that raise": Raises(),
    "a probability as a tensor": changed(v1.RandomHorizontalFlip(), p=torch.tensor([1.0])),
    "a probability that is missing": v1.Compose([v1.CenterCrop(24), v1.ToTensor(), v1.RandomApply([Raises()], 0)]),
    "views": MultiView([Raises(), V1]),
}


@pytest.mark.parametrize("name", CANNOT_BE_READ)
def test_a_transform_that_cannot_be_read_runs_as_written(name: str, photos: Path) -> None:
    for kind in (ImageFolder, ImageFolderRecord):
        assert_as_stock(kind(photos, CANNOT_BE_READ[name]))
    if name == "tensors of one number":
        assert "cannot be read: TypeError" in str(RecordLoader(ImageFolder(photos, CANNOT_BE_READ[name]), 3))


@pytest.mark.parametrize("kind", [ImageFolder, ImageFolderRecord])
def test_what_a_file_says_beside_its_pixels_reaches_functions(kind: Any, tmp_path: Path) -> None:
    exif, folder = Image.Exif(), write_tree(tmp_path / "t", {"a/0.jpg": image_file(0)}) / "a"
    exif[ExifTags.Base.Orientation] = 6
    for name in ("1.jpg", "2.png", "3.webp"):
        picture(0).save(folder / name, exif=exif)
    dataset = kind(folder.parent, v1.Compose([v1.Resize(30), ImageOps.exif_transpose, *V1.transforms[1:]]))
    assert_as_stock(dataset)
    for dataset.transform in (None, v1.CenterCrop(9), v1.CenterCrop(400), v1.RandomCrop(9, 2), v1.Grayscale(3)):
        assert_as_stock(dataset, collate_fn=lambda batch: [image.info for image, _ in batch])


# What datasets give


class Batches:
    """A dataset that makes whole batches."""

    def __init__(self, make: Callable[[list[int]], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index])

    def __getitems__(self, indices: list[int]) -> Any:
        return self.make(indices)


def a_dict(indices: list[int]) -> Any:
    return {"x": torch.tensor(indices), "n": len(indices)}


def tuples(indices: list[int]) -> Any:
    return tuple((index, -index) for index in indices)


@pytest.mark.parametrize(("make", "collate"), [(a_dict, dict), (tuples, tuple), (tuples, None)])
@pytest.mark.parametrize("workers", ["auto", "threads", "processes"])
def test_what_getitems_returns_is_collated_as_it_is(make: Any, collate: Any, workers: Any) -> None:
    dataset = Batches(make)
    right = list(DataLoader(dataset, 4, collate_fn=collate))
    assert_same(list(DataLoader(dataset, 4, collate_fn=collate, num_workers=2)), right)
    assert_same(list(RecordLoader(dataset, 4, collate_fn=collate, workers=workers, num_workers=2)), right)


class Listed:
    """Has lists of the names that `HasImageBytes` has for methods."""

    def __init__(self) -> None:
        self.image_bytes = [image_file(number) for number in range(COUNT)]
        self.target = list(range(COUNT))

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return len(self.image_bytes[index]), self.target[index]


class Plain:
    """As `HasImageBytes` asks, without a `__getitem__`."""

    transform = V1

    def __len__(self) -> int:
        return COUNT

    def image_bytes(self, index: int) -> bytes:
        return image_file(index)

    def target(self, index: int) -> int:
        return index


class Cropped(Plain):
    """Its own samples are others than the methods give."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), index), self.target(index) + 100


@pytest.mark.parametrize("kind", [Listed, Cropped])
def test_methods_that_may_mean_something_else_are_not_called(kind: Any) -> None:
    dataset = kind()
    assert_as_stock(dataset)
    reason = "makes its samples itself" if issubclass(kind, Listed) else "is no subclass of HasImageBytes"
    assert reason in str(RecordLoader(dataset, 3))


class Declared(Cropped, HasImageBytes):
    """Says what its methods are for."""


class OfTorch(Plain, torch.utils.data.Dataset[Any]):
    """Inherits a `__getitem__` that only raises."""


@pytest.mark.parametrize("kind", [Plain, Declared, OfTorch])
def test_methods_that_are_surely_meant_so_are_called(kind: Any) -> None:
    made = list(RecordLoader(kind(), 3))
    batches = (0, 1, 2), (3, 4, 5)
    assert_same(made, [[torch.stack([V1(picture(each)) for each in some]), torch.tensor(some)] for some in batches])


def picture(number: int) -> Image.Image:
    return Image.open(io.BytesIO(image_file(number))).convert("RGB")


# Switches of torch and Pillow

EACH = {
    "v1": V1,
    "v2": V2,
    "v2 normalized": v2.Compose([*V2.transforms, v2.Normalize(MEAN, STD)]),
    "floats of bytes": v2.Compose([v2.CenterCrop(24), v2.ToImage(), v2.ToDtype(torch.float32)]),
    "jpeg": v1.Compose([v1.CenterCrop(24), v1.PILToTensor()]),
    "colors": COLORS,
    "tensors resized": v2.Compose(
        [v2.ToImage(), v2.Resize((20, 24), antialias=True), v2.ToDtype(torch.float32, scale=True)]
    ),
    "blur": v1.Compose([v1.CenterCrop(24), v1.GaussianBlur(5, (1.3, 1.3)), v1.ToTensor()]),
    "an image": v2.Compose([v2.CenterCrop(24), v2.ToImage()]),
    "erased": v1.Compose([*V1.transforms[:3], v1.RandomErasing(1, (1e-9, 1e-9), value=(0.1, 0.2, 0.3))]),
}


@pytest.fixture(params=[torch.bfloat16, torch.float16, torch.float64], ids=str)
def default_dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.mark.parametrize("name", EACH)
def test_another_default_dtype(name: str, photos: Path, default_dtype: torch.dtype) -> None:
    assert_as_stock(ImageFolderRecord(photos, EACH[name]))
    assert_as_stock(ImageFolder(photos, EACH[name], target_transform=float))


@contextlib.contextmanager
def deterministic_algorithms() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


SWITCHES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "deterministic algorithms": deterministic_algorithms,
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "TVTensor": lambda: tv_tensors.set_return_type("TVTensor"),
}


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("switch", SWITCHES)
def test_switches_of_torch(switch: str, name: str, photos: Path) -> None:
    dataset = ImageFolder(photos, EACH[name])
    loaders = [RecordLoader(dataset, 3, num_workers=number, persistent_workers=number > 0) for number in (0, 2)]
    for _ in range(2):  # with it, then without it: memory is used again
        with SWITCHES[switch]():
            assert_as_stock(dataset)
            for loader in loaders:
                assert_same(list(loader), list(DataLoader(dataset, 3)))
        for loader in loaders:
            assert_same(list(loader), list(DataLoader(dataset, 3)))


@pytest.mark.parametrize("name", EACH)
def test_another_default_device(name: str, photos: Path) -> None:
    dataset = ImageFolder(photos, EACH[name])
    right = list(DataLoader(dataset, 3))
    for number in (0, 2):
        loader = RecordLoader(dataset, 3, num_workers=number)
        with torch.device("meta"):
            made = list(loader)
        assert_same(made, right)


def test_truncated_images_that_pillow_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"a/{number}.jpg": image_file(number) for number in range(COUNT)}
    files["a/1.jpg"], files["a/2.jpg"] = files["a/1.jpg"][:1500], files["a/2.jpg"][:-2]
    dataset = ImageFolder(write_tree(tmp_path / "t", files), EACH["jpeg"])
    for loader in (DataLoader(dataset, 3), RecordLoader(dataset, 3)):
        with pytest.raises(OSError, match="truncated"):
            list(loader)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert_as_stock(dataset)


def test_means_that_are_learned_or_nearly_zero(photos: Path) -> None:
    dataset = ImageFolder(photos, normalized(torch.tensor([0.1, 0.2, 0.3], requires_grad=True), [0.5] * 3))
    (images, _), *_ = RecordLoader(dataset, 3, num_workers=0)
    assert images.requires_grad
    dataset.transform = normalized([0.5] * 3, [1e-60] * 3)
    for loader in (DataLoader(dataset, 3), *(RecordLoader(dataset, 3, num_workers=number) for number in (0, 2))):
        with pytest.raises(ValueError, match="division by zero"):
            list(loader)
