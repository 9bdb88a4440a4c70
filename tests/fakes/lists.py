"""List files and the images that they name, by code."""

from collections.abc import Sequence
from pathlib import Path

from tests.fakes.folder import image_bytes

NAMES = (
    "pictures/b 2.png",
    "a.jpg",
    "pictures/b 10.png",
    "pictures/ä ö.jpg",
    "z/deep/er/c.bmp",
    "b.webp",
    "pictures/a.png",
    "Z.jpg",
    "z/d.png",
)
"""Paths in an order that is nobody's but the list's."""

LABELS = ("dog", "cat", "dog", "Zebra", "cat", "dog", "cat", "cat", "dog")


def write_images(folder: Path, names: Sequence[str] = NAMES) -> dict[str, bytes]:
    """Write an image at each path; returns their bytes."""
    images = {name: image_bytes(name, seed) for seed, name in enumerate(names)}
    for name, data in images.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return images


def write_list(path: Path, lines: Sequence[str]) -> Path:
    """Write a list file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def plain(names: Sequence[str] = NAMES, labels: Sequence[str] = LABELS) -> list[str]:
    """The lines of a plain list."""
    return [f"{name} {label}" for name, label in zip(names, labels, strict=True)]


def write_dogs(folder: Path) -> None:
    """Write the table of dogs on docs/guides/tables.md: 12 dogs for training, 4 for validation."""
    names = [f"dogs/{number}.jpg" for number in range(16)]
    write_images(folder, names)
    tags = ("", "brown", "puppy", '"puppy,brown"')
    rows = [
        f"{name},{('beagle', 'poodle')[number % 2]},{number / 2},{tags[number % 4]},{'train' if number < 12 else 'val'}"
        for number, name in enumerate(names)
    ]
    (folder / "dogs.csv").write_text("\n".join(["photo,breed,age,tags,split", *rows, ""]))
