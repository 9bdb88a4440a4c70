"""Run all benchmarks and write `docs/benchmarks.md`: ``python -m benchmarks --photos FOLDER``."""

from pathlib import Path

from benchmarks import cold_reads, open_cost, prepare_imagenet, size, warm_loader
from benchmarks.common import Line, arguments, can_drop_caches, machine, photographs

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

_TEXT = """# Benchmarks

Every line was measured side by side with what it is compared to, in one run, the variants taking turns, medians of
{repeats}. Machines differ and are noisy: the ratios are what counts.

{machine}

```
make bench{photos}
```

{source}

| what | against | asked for | measured |
| --- | --- | --- | --- |
{rows}

The scripts are in `benchmarks/`, one for each block of lines; each runs on its own, too
(`python -m benchmarks.cold_reads --help`). Cold means: caches dropped (`/proc/sys/vm/drop_caches`) and a fresh process.
"""


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    photos = photographs(options.photos)
    lines: list[Line] = []
    lines += open_cost.measure(options.repeats)
    lines += size.measure(photos)
    if can_drop_caches():
        lines += prepare_imagenet.measure(photos, options.repeats)
        lines += cold_reads.measure(photos, options.repeats)
    else:
        print("The cold benchmarks need root (to drop the caches); they are left out.")
    lines += warm_loader.measure(photos, options.repeats)
    rows = "\n".join(f"| {line.what} | {line.against} | {line.wanted} | {line.measured} |" for line in lines)
    real = f"{len(photos)} real photographs (mean {sum(map(len, photos)) // len(photos) // 1000} KB), repeated"
    text = _TEXT.format(
        repeats=options.repeats,
        machine=machine(),
        photos=" PHOTOS=folder-with-photographs" if options.photos else "",
        source=f"Photographs: {real}." if options.photos else "Photographs: 250 generated ones, repeated.",
        rows=rows,
    )
    PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
