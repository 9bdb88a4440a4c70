"""How many bytes a record set takes over those of the photographs in it."""

from pathlib import Path

from benchmarks.common import Line, arguments, fresh_folder, many, photographs
from recordzoo.preparing.preparation import ensure
from recordzoo.recipes.folders import FolderRecipe


def measure(photos: list[bytes], total_bytes: int = 300_000_000) -> list[Line]:
    folder = fresh_folder("size")
    raw = count = 0
    for count, data in enumerate(many(photos, total_bytes), 1):
        path = folder / "tree" / f"class{count % 40:02d}" / f"{count:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        raw += len(data)
    target = ensure(FolderRecipe(), folder / "tree", prepare=True)
    stored = sum(path.stat().st_size for path in Path(target).iterdir())
    return [
        Line(
            f"size on disk, {count:,} photographs, mean {raw // count // 1000} KB",
            "the raw bytes",
            "at most 1.02x",
            f"{stored / raw:.4f}x",
        )
    ]


if __name__ == "__main__":
    options = arguments(__doc__ or "").parse_args()
    for line in measure(photographs(options.photos)):
        print(line)
