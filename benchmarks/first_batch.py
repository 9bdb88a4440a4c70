"""Seconds to the first batch, imports not counted, where nothing is compiled yet, and where all is.

    python -m benchmarks.first_batch --photos FOLDER

Without `RECORDZOO_COMPILE`, and with `wait`.
"""

import os
import tempfile
import time
from pathlib import Path

from benchmarks.common import arguments, fresh_folder, in_fresh_process, interleaved, many, median, photographs
from benchmarks.recipes_data import write_classes

TRANSFORMS = {
    "crop, flip": "T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()",
    "crop, flip, ColorJitter": "T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4), "
    "T.ToTensor()",
}
_CODE = """
import sys, time
from torchvision import transforms as T
from recordzoo import ImageFolderRecord, RecordLoader
transform = T.Compose(eval(f"[{sys.argv[2]}]"))
start = time.perf_counter()
next(iter(RecordLoader(ImageFolderRecord(sys.argv[1], transform), 64, shuffle=True, num_workers=2)))
print(time.perf_counter() - start, flush=True)
"""


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.set_defaults(repeats=3)
    options = parser.parse_args()
    tree = fresh_folder("first-batch") / "tree"
    write_classes(many(photographs(options.photos), 20_000_000), tree)

    def run(transform: str, mode: str, cache: str) -> float:
        os.environ.pop("RECORDZOO_COMPILE", None)
        if mode:
            os.environ["RECORDZOO_COMPILE"] = mode
        os.environ["NUMBA_CACHE_DIR"] = cache
        return float(in_fresh_process(_CODE, tree, transform))

    for name, transform in TRANSFORMS.items():
        for mode in ("", "wait"):
            with tempfile.TemporaryDirectory() as kept:
                run(transform, "wait", kept)

                def compiling(transform: str = transform, mode: str = mode) -> float:
                    with tempfile.TemporaryDirectory() as empty:
                        took = run(transform, mode, empty)
                        while not mode and not list(Path(empty).rglob("recordzoo-changes-*.ready")):
                            time.sleep(0.1)  # the spare process would slow down the next run
                        return took

                def compiled(transform: str = transform, mode: str = mode, kept: str = kept) -> float:
                    return run(transform, mode, kept)

                times = interleaved({"empty cache": compiling, "compiled": compiled}, options.repeats)
            found = ", ".join(f"{what} {median(values):.2f} s" for what, values in times.items())
            print(f"{name}, RECORDZOO_COMPILE={mode or '(not set)'}: {found}", flush=True)


if __name__ == "__main__":
    main()
