"""The page of formats: `recordzoo bench --formats all` on a tree of photographs.

python -m benchmarks.formats --photos PHOTOS
"""

import sys

from benchmarks.common import WORK, arguments, photographs
from benchmarks.peers.trees import count_files, find_tree
from recordzoo.cli import main

PAGE = WORK.parent.parent / "docs" / "benchmarks-formats.md"


def run() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--images", type=int, help="default: all of a tree of 112 MB")
    options = parser.parse_args()
    tree = find_tree("photos", photographs(options.photos))
    photos = tree.with_name("photos")  # what the page calls them
    if not photos.exists():
        photos.symlink_to(tree.name)
    images = options.images or count_files(tree)
    sys.argv[1:] = ["bench", str(photos), "--formats", "all", "--images", str(images)]
    sys.argv += ["--repeats", str(options.repeats), "--page", str(PAGE)]
    main()


if __name__ == "__main__":
    run()
