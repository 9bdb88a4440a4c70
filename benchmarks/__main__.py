"""Run benchmarks and write their section: ``python -m benchmarks --photos FOLDER [--section opening ...]``.

Lines that are not measured now stay as they were: they are stored in ``docs/benchmarks-lines.json``.
"""

import json
from dataclasses import asdict

from benchmarks import cold_reads, open_cost, pages, precision, prepare_imagenet, size, zoo
from benchmarks.common import Line, arguments, can_drop_caches, photographs

NUMBERS = pages.DOCS / "benchmarks-lines.json"
SECTION = "lines"
_HEAD = ("what", "against", "measured")


def measure(section: str, photos: list[bytes], repeats: int) -> list[Line]:
    """Measure the lines of a section."""
    if section == "opening":
        return open_cost.measure(repeats)
    if section == "preparing":
        return prepare_imagenet.measure(photos, repeats)
    if section == "storing":
        return size.measure(photos) + cold_reads.measure(photos, repeats)
    return precision.measure(photos)


MEASURED = ("opening", "storing", "preparing", "precision")
NEEDING_ROOT = ("storing", "preparing")


def render() -> str:
    """Make the section of the stored lines."""
    rows = json.loads(NUMBERS.read_text(encoding="utf-8"))["rows"]
    lines = [
        (("" if number else f"**{name}:** ") + line["what"], line["against"], line["measured"])
        for name in MEASURED
        for number, line in enumerate(rows[name]["lines"])
    ]
    return f"{pages.table(_HEAD, lines)}\n\n{pages.origins(rows)}"


def main() -> None:
    parser = arguments(__doc__ or "")
    choices = [*MEASURED, zoo.SECTION]
    parser.add_argument("--section", choices=choices, action="append", help="default: all but the zoo's")
    options = parser.parse_args()
    photos = photographs(options.photos)
    for section in options.section or MEASURED:
        if section == zoo.SECTION:
            zoo.write_page(options.repeats)
        elif section in NEEDING_ROOT and not can_drop_caches():
            print(f"{section}: needs root, to drop the caches; left out")
        else:
            lines = measure(section, photos, options.repeats)
            row = {
                "photos": "real" if options.photos else "generated",
                "repeats": options.repeats,
                "lines": [asdict(line) for line in lines],
            }
            pages.keep(NUMBERS, {section: row})
            pages.write_section(SECTION, render())
            print(pages.read_section(SECTION))


if __name__ == "__main__":
    main()
