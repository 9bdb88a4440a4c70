"""Write the directory's files NUMBER-LABEL.jpg as MDS and with LitData, for docs/importing.md.

Runs in an environment of `make formats`.
"""

from pathlib import Path
from typing import Any

from litdata import optimize
from PIL import Image
from streaming import MDSWriter


def opened(path: str) -> Any:
    """Both packages keep the bytes of a JPEG that was opened by name."""
    return Image.open(path), int(Path(path).stem.partition("-")[2])


def main() -> None:
    paths = sorted(map(str, Path().absolute().glob("*.jpg")), key=lambda path: int(Path(path).stem.partition("-")[0]))
    for split, encoding in (("train", "jpeg"), ("val", "bytes")):
        columns = {"image": encoding, "label": "int", "caption": "str"}
        with MDSWriter(out=f"photos-mds/{split}", columns=columns) as writer:
            for path in paths:
                image, label = opened(path)
                stored = image if encoding == "jpeg" else Path(path).read_bytes()
                writer.write({"image": stored, "label": label, "caption": "a caption"})
    optimize(opened, paths, "optimized/train", chunk_size=4, num_workers=1)


if __name__ == "__main__":
    main()
