"""The page of benchmarks: sections made of the stored numbers, and a chart of the numbers of its table."""

import json
import re

from benchmarks import __main__ as lines
from benchmarks import cluster, files_or_records, pages, recipes_page, scaling, small_images, zoo
from benchmarks.formats import page as formats
from benchmarks.object_storage import page as object_storage
from benchmarks.peers import page
from benchmarks.scale import page as scale


def rendered() -> dict[str, str]:
    """All sections of which numbers are stored, and the chart, by their names."""
    made = page.render() | object_storage.render() | recipes_page.render()
    made |= {scale.SECTION: scale.render(), zoo.SECTION: zoo.render(), lines.SECTION: lines.render()}
    for script in (
        files_or_records,
        scaling,
        small_images,
    ):  # numbers of a script that was not run yet are of no machine
        if script.NUMBERS.exists():
            stored = json.loads(script.NUMBERS.read_text(encoding="utf-8"))
            made[script.SECTION] = script.section(stored)
    return made


def test_sections_and_chart_are_those_of_the_stored_numbers() -> None:
    made = rendered()
    for name, text in made.items():
        found = (
            (pages.DOCS / name).read_text(encoding="utf-8") if name == recipes_page.CHART else pages.read_section(name)
        )
        assert found.strip() == text.strip(), f"{name} is stale"
    written = [name for name in made if name != recipes_page.CHART] + [cluster.SECTION, formats.SECTION]
    written += [script.SECTION for script in (scaling, small_images) if script.SECTION not in written]
    found = re.findall(r"^<!--(\w.*)-->$", pages.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(found) == sorted(written)
