"""Run benchmarks and write their sections: ``python -m benchmarks --photos FOLDER [--section opening ...]``."""

from collections.abc import Sequence

from benchmarks import cold_reads, open_cost, pages, precision, prepare_imagenet, size, tiles, warm_loader, zoo
from benchmarks.common import Line, arguments, can_drop_caches, machine, photographs

_HEAD = ("what", "against", "measured", "target")


def measure(section: str, photos: list[bytes], repeats: int) -> list[Line]:
    """Measure the lines of a section."""
    if section == "opening":
        return open_cost.measure(repeats)
    if section == "preparing":
        return prepare_imagenet.measure(photos, repeats)
    if section == "storing":
        return size.measure(photos) + cold_reads.measure(photos, repeats)
    return warm_loader.measure(photos, repeats) + precision.measure(photos) + tiles.measure(photos, repeats)


SECTIONS = ("opening", "storing", "preparing", "loading")
NEEDING_ROOT = ("storing", "preparing")


def text(lines: Sequence[Line], repeats: int, source: str) -> str:
    """Make a section."""
    made = pages.table(_HEAD, [(line.what, line.against, line.measured, line.wanted) for line in lines])
    return f"{made}\n\nMedians of {repeats}{source}. {machine()}"


def main() -> None:
    parser = arguments(__doc__ or "")
    choices = [*SECTIONS, zoo.SECTION]
    parser.add_argument("--section", choices=choices, action="append", help="default: all but the zoo's")
    options = parser.parse_args()
    photos = photographs(options.photos)
    mean = sum(map(len, photos)) // len(photos) // 1000
    source = f"; {len(photos)} {'real' if options.photos else 'generated'} photographs (mean {mean} KB), repeated"
    for section in options.section or SECTIONS:
        if section == zoo.SECTION:
            zoo.write_page(options.repeats)
        elif section in NEEDING_ROOT and not can_drop_caches():
            print(f"{section}: needs root, to drop the caches; left out")
        else:
            lines = measure(section, photos, options.repeats)
            pages.write_section(section, text(lines, options.repeats, "" if section == "opening" else source))
            print(pages.read_section(section))


if __name__ == "__main__":
    main()
