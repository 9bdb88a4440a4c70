"""What recordzoo writes for browsers, in one: the page of `show --html`, and what a notebook shows of a dataset."""

import re

import numpy as np
import pytest

import recordzoo
from recordzoo.base.text import clean
from recordzoo.records.reader import RecordReader
from tests.browsing import DESKTOP, PHONE, watched
from tests.fakes.odd_images import HOSTILE_NAMES, broken_images
from tests.fakes.pictures import jpeg, picture
from tests.fakes.records import write_records
from tests.running import run

pytestmark = [pytest.mark.slow, pytest.mark.browser]

LOOKS = pytest.mark.parametrize(
    ("dark", "width"), [(False, DESKTOP), (True, PHONE)], ids=["light, wide", "dark, phone"]
)
"""Colours do not depend on the width, nor the layout on the colours."""
WORSE_NAMES = (
    *HOSTILE_NAMES,
    "javascript:alert(1)",
    "'-alert(1)-'",
    "</title></style></script><svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "&lt;b&gt; &amp;amp; \\u003cscript> %3Cscript%3E",
    "line\nbreak\tand\x00null",
    "\u2066\u202b\u200f<b>bidi",
    "🦜👩🏽‍🔬🏳️‍🌈",
    "W" * 4000,
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Images in classes, and with file names, that would act where they were not escaped; and odd and broken ones."""

    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=alert(1)>.records"
    return write_records(
        path,
        [jpeg(picture(rng, 200, 150)) for _ in WORSE_NAMES],
        names=[f"{number}/{name}.jpg" for number, name in enumerate(WORSE_NAMES)],
        arrays={"target": np.arange(len(WORSE_NAMES))},
        classes=[f"{name} " for name in WORSE_NAMES],
        encoding="image",
    )


def page_of(path, folder):
    target = folder / "page.html"
    assert run("show", path, "--html", "--output", target, cwd=folder).returncode == 0
    return target.as_uri()


@pytest.fixture(scope="module")
def hostile_page(hostile, tmp_path_factory):
    return page_of(hostile, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def odd_page(odd, tmp_path_factory):
    return page_of(odd, tmp_path_factory.mktemp("page"))


@pytest.fixture
def open_page(chromium):
    """Open a page; when the test ends, nothing may have gone wrong on it, and nobody else been asked for anything."""
    contexts = []

    def open_it(url, **options):
        context = watched(chromium, **options)
        it = context.__enter__()
        contexts.append((context, it))
        it.page.goto(url)
        return it

    yield open_it
    for context, it in contexts:
        context.__exit__(None, None, None)
        assert (it.problems, it.strangers) == ([], [])


class TestPage:
    def test_hostile_names_are_shown_as_they_are(self, open_page, hostile_page, hostile):
        it = open_page(hostile_page)
        cards = it.page.locator("#grid button")
        shown = [clean(f"{name} ") for name in WORSE_NAMES]
        assert cards.count() == len(WORSE_NAMES)
        assert it.page.locator("#grid .caption").all_text_contents() == shown
        assert it.page.locator("h1").inner_text() == "<img src=x onerror=alert(1)>"
        assert it.page.locator("iframe, svg, body b, header img").count() == 0
        for number in range(len(WORSE_NAMES)):
            cards.nth(number).click()
            assert it.page.locator("#viewer-title").text_content() == shown[number]
            assert it.page.locator("#viewer img").get_attribute("alt") == clean(RecordReader(hostile).names[number])
            it.page.keyboard.press("Escape")
        it.page.wait_for_timeout(100)  # what a script would do later

    def test_the_filter_and_the_search(self, open_page, hostile_page):
        it = open_page(hostile_page)
        names = it.page.locator("#grid .caption")
        it.page.get_by_label("Class").select_option(index=2)
        assert names.all_text_contents() == [clean(f"{WORSE_NAMES[1]} ")]
        assert it.page.locator("#status").inner_text() == "1 image"
        it.page.get_by_label("Class").select_option(index=0)
        it.page.get_by_label("Search").fill("JAVASCRIPT:")
        assert names.all_text_contents() == ["javascript:alert(1) "]
        it.page.get_by_label("Search").press("Enter")  # sends no form
        it.page.get_by_label("Search").fill("nothing of this name")
        assert names.count() == 0
        assert it.page.locator("#status").inner_text() == "0 images"

    def test_images_turn_with_the_arrow_keys_in_the_viewer(self, open_page, hostile_page):
        it = open_page(hostile_page)
        it.page.locator("#grid button").first.press("Enter")
        it.page.keyboard.press("ArrowRight")
        assert it.page.locator("#viewer-title").text_content() == clean(f"{WORSE_NAMES[1]} ")
        it.page.keyboard.press("Escape")
        title = clean(f"1/{WORSE_NAMES[1]}.jpg")
        it.page.wait_for_function("title => document.activeElement.title === title", arg=title)

    def test_what_cannot_be_shown_says_why(self, open_page, odd_page):
        it = open_page(odd_page)
        assert it.page.locator(".place.broken").count() == len(broken_images())
        assert it.page.get_by_text("it is no image that Pillow knows").count() == 2

    @LOOKS
    def test_it_fits_and_can_be_read(self, open_page, odd_page, hostile_page, dark, width):
        it = open_page(odd_page, width=width, dark=dark)
        assert (it.sideways(), it.faults()) == (0, [])
        it = open_page(hostile_page, width=width, dark=dark)
        assert it.sideways() == 0
        it.page.locator("#grid button").last.click()
        assert (it.sideways(), it.faults()) == (0, [])

    def test_an_attack_on_the_data_would_be_noticed(self, open_page, hostile_page, tmp_path):
        """These tests see a script that runs: one that is let into the page by its policy."""
        with open(hostile_page.removeprefix("file://"), encoding="utf-8") as file:
            text = file.read()
        bad = tmp_path / "bad.html"
        bad.write_text(re.sub("<meta http-equiv=.*?>", "", text).replace("<h1>", "<img src=x onerror=alert(1)><h1>"))
        it = open_page(bad.as_uri())
        it.page.wait_for_timeout(100)
        assert any("a script says '1'" in problem for problem in it.problems)
        it.problems.clear()


class TestNotebook:
    """A page as notebooks show it: the HTML of an output in a page with styles of its own."""

    def page(self, datasets, folder, *, dark=False):
        colours = ("#111111", "#e0e0e0") if dark else ("#ffffff", "#1f1f1f")
        body = f"background: {colours[0]}; color: {colours[1]}; font: 13px sans-serif"
        style = f"body {{ {body} }} td {{ text-align: right }}"
        head = f'<html lang="en"><meta charset="utf-8"><title>n</title><style>{style}</style>'
        shown = "<hr>".join(dataset._repr_html_() for dataset in datasets)
        path = folder / "notebook.html"
        path.write_text(f"{head}<main><h1>Notebook</h1>{shown}</main>", encoding="utf-8")
        return path.as_uri()

    @LOOKS
    def test_it_fits_and_can_be_read(self, open_page, hostile, odd, tmp_path, dark, width):
        page = self.page(map(recordzoo.open, (odd, hostile)), tmp_path, dark=dark)
        it = open_page(page, width=width, dark=dark)
        assert it.page.locator("figure").count() == 24
        assert (it.sideways(), it.faults()) == (0, [])

    def test_hostile_names_are_shown_as_they_are(self, open_page, hostile, tmp_path):
        it = open_page(self.page([recordzoo.open(hostile)], tmp_path))
        assert it.page.locator("script, iframe, svg, b, a, title ~ title").count() == 0
        alts = it.page.locator("img").evaluate_all("all => all.map((image) => image.alt)")
        assert len(alts) == 12
        assert all(image["w"] for image in it.page.evaluate("[...document.images].map((i) => ({w: i.naturalWidth}))"))
        assert '</script><img src=x onerror="alert(1)">' in alts[0]
        assert all(map(str.isprintable, alts))
