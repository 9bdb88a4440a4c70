"""The built site in a browser: what a script, a colour, a phone or another machine would spoil."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from recordzoo import __version__, catalogue
from tests.browsing import PHONE, pages_of, served, watched

pytestmark = [pytest.mark.slow, pytest.mark.browser]

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(request, chromium, tmp_path_factory):
    """The folder of the built site."""
    given = request.config.getoption("--site")
    if given:
        return Path(given).absolute()
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, check=True, timeout=280)
    return folder


@pytest.fixture(scope="module")
def url(site):
    with served(site) as address:
        yield address


@pytest.fixture
def visit(open_page, url):
    """Open a page of the site."""
    return lambda path, **options: open_page(url + path, **options)


def without_search(page, site):
    """Give the pages an empty index: each would otherwise spend a second on the whole one."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    empty = {**index, "docs": index["docs"][:1]}
    page.route("**/search_index.json", lambda route: route.fulfill(json=empty))


CUT = """() => [...document.querySelectorAll(".highlight:not(.language-text) pre > code")]
  .filter((code) => code.scrollWidth > code.clientWidth).map((code) => code.innerText)"""
"""Code that is wider than its box."""


def test_every_page_works_on_a_phone(chromium, site, url):
    """No error, no failed request, none to another machine; nothing is cut; a text for each image; the version."""
    pages = pages_of(site)
    assert len(pages) > 20
    wide, unnamed, cut = [], [], []
    with watched(chromium, width=PHONE) as it:
        without_search(it.page, site)
        for path in pages:
            it.page.goto(url + path)
            found = it.page.evaluate("[...document.images].filter((image) => !image.alt).map((image) => image.src)")
            unnamed += [(path, image) for image in found]
            assert f"recordzoo {__version__}" in it.page.locator(".md-copyright").inner_text()
            wide += [(path, it.sideways())] if it.sideways() else []
            cut += [(path, code) for code in it.page.evaluate(CUT)]
    assert (wide, unnamed, cut, it.problems, it.strangers) == ([], [], [], [], [])


def test_the_search_shows_the_guide_first(visit):
    it = visit("install/")
    field, first = it.page.locator("input.md-search__input"), it.page.locator(".md-search-result__item a").first
    for words, page in {
        "class imbalance": "sampling/",
        "multi GPU": "guides/many-ranks/",
        "offline": "install/",
        "s3": "guides/object-storage/",
    }.items():
        field.fill("")
        field.press_sequentially(words)
        expect(first).to_have_attribute("href", re.compile(rf":\d+/{page}$"), timeout=30_000)


class TestCatalogue:
    ROWS = "#catalogue tbody tr:visible"

    def names(self, it):
        return it.page.locator(self.ROWS).evaluate_all("all => all.map((row) => row.cells[0].textContent.trim())")

    def test_the_search_filters_and_is_in_the_address(self, visit):
        it = visit("datasets/")
        every = self.names(it)
        assert len(every) == len(catalogue.names())
        it.page.locator("#catalogue-search").fill("cub birds")
        found = self.names(it)
        assert any("CUB-200-2011" in name for name in found)
        assert len(found) < 10
        it.page.reload()  # what was chosen stands in the address
        it.page.locator("#catalogue-form").wait_for()
        assert self.names(it) == found
        it.page.get_by_role("button", name="Show all").click()
        assert self.names(it) == every

    @pytest.mark.parametrize("filter", ["task", "size"])
    def test_a_filter_shows_those_with_its_value(self, visit, filter):
        it = visit("datasets/")
        control = it.page.locator(f"#catalogue-{filter}")
        control.select_option(index=1)
        value = control.input_value()
        shown = it.page.locator(self.ROWS).evaluate_all(f"all => all.map((row) => row.dataset.{filter})")
        assert 0 < len(shown) < len(catalogue.names())
        assert all(value in row.split("|") for row in shown)

    def test_on_a_phone_rows_are_cards_and_a_finger_meets_its_control(self, visit):
        it = visit("datasets/#license=MIT", width=PHONE)
        assert not it.page.locator("#catalogue-task").is_visible()
        it.page.locator("#catalogue-form summary").click()
        it.page.locator("#catalogue-order").select_option("images down")
        assert it.page.url.endswith("#license=MIT&sort=images&down=")
        rows = it.page.locator(self.ROWS)
        assert rows.evaluate_all("all => all.every((row) => row.scrollWidth <= row.clientWidth)")
        cells = rows.locator("td[data-label=Images]").evaluate_all("all => all.map((cell) => cell.dataset.value)")
        assert [float(text) for text in cells] == sorted(map(float, cells), reverse=True)
        controls = it.page.locator("article :is(#catalogue-controls :is(input, select, summary), #catalogue a):visible")
        heights = controls.evaluate_all("all => all.map((each) => each.getBoundingClientRect().height)")
        assert min(heights) >= 24
