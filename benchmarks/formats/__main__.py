"""Compare formats on a tree of photographs, and write the section "formats".

python -m benchmarks.formats --photos PHOTOS
"""

from benchmarks import pages
from benchmarks.common import WORK, arguments, photographs
from benchmarks.formats.compare import compare
from benchmarks.formats.page import render
from benchmarks.peers.trees import count_files, find_tree


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--images", type=int, help="default: all of a tree of 112 MB")
    options = parser.parse_args()
    tree = find_tree("photos", photographs(options.photos))
    images = options.images or count_files(tree)
    found = compare(tree, WORK, num_images=images, repeats=options.repeats, tell=lambda line: print(line, flush=True))
    command = f"python -m benchmarks.formats --photos photos --images {images} --repeats {found.repeats}"
    pages.write(render(found, command))


if __name__ == "__main__":
    main()
