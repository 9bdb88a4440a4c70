"""Run benchmarks and write their page: ``python -m benchmarks --photos FOLDER [--page loader]``."""

from collections.abc import Callable

from benchmarks import cold_reads, open_cost, precision, prepare_imagenet, size, tiles, warm_loader, zoo
from benchmarks.common import Line, arguments, can_drop_caches, machine, photographs
from benchmarks.sections import DOCS

_TEXT = """# {title}

Every line was measured side by side with what it is compared to, in one run, the variants taking turns, medians of
{repeats}. Machines differ and are noisy: the ratios are what counts.

{machine}

```
{command}
```

{source}

| what | against | target | measured |
| --- | --- | --- | --- |
{rows}

{end}
"""

_STORING = """The scripts are in `benchmarks/`, one for each block of lines; each runs on its own, too
(`python -m benchmarks.cold_reads --help`). Cold means: caches dropped (`/proc/sys/vm/drop_caches`) and a fresh
process."""

_LOADING = """What the loaders of others do on the same photographs stands in [its own page](benchmarks-peers.md)."""


def storing(photos: list[bytes], repeats: int) -> list[Line]:
    lines = open_cost.measure(repeats) + size.measure(photos)
    if can_drop_caches():
        lines += prepare_imagenet.measure(photos, repeats)
        lines += cold_reads.measure(photos, repeats)
    else:
        print("The cold benchmarks need root (to drop the caches); they are left out.")
    return lines + warm_loader.measure(photos, repeats)


def loading(photos: list[bytes], repeats: int) -> list[Line]:
    return precision.measure(photos) + tiles.measure(photos, repeats)


PAGES: dict[str, tuple[str, str, Callable[[list[bytes], int], list[Line]], str]] = {
    "storing": ("benchmarks.md", "Benchmarks", storing, _STORING),
    "loader": ("benchmarks-loader.md", "Benchmarks of the loader", loading, _LOADING),
}


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--page", choices=[*PAGES, "zoo"], default="storing", help="which page")
    options = parser.parse_args()
    if options.page == "zoo":
        zoo.write_page(options.repeats)
        return
    name, title, measure, end = PAGES[options.page]
    photos = photographs(options.photos)
    rows = "\n".join(
        f"| {line.what} | {line.against} | {line.wanted} | {line.measured} |"
        for line in measure(photos, options.repeats)
    )
    real = f"{len(photos)} real photographs (mean {sum(map(len, photos)) // len(photos) // 1000} KB), repeated"
    arguments_given = " PHOTOS=folder-with-photographs" if options.photos else ""
    text = _TEXT.format(
        title=title,
        repeats=options.repeats,
        machine=machine(),
        command=f"make bench PAGE={options.page}{arguments_given}",
        source=f"Photographs: {real}." if options.photos else "Photographs: 250 generated ones, repeated.",
        rows=rows,
        end=end,
    )
    page = DOCS / name
    _, heading, others = page.read_text(encoding="utf-8").partition("\n## ")  # sections of other scripts
    page.write_text(text + heading + others, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
