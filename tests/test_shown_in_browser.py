"""What a notebook shows of a dataset, in a browser."""

import numpy as np
import pytest

import recordzoo
from tests.browsing import DESKTOP, PHONE
from tests.fakes.odd_images import HOSTILE_NAMES
from tests.fakes.pictures import jpeg, picture
from tests.fakes.records import write_records

pytestmark = [pytest.mark.slow, pytest.mark.browser]

WORSE_NAMES = (
    *HOSTILE_NAMES,
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
    """Images in classes, and with file names, that would act where they were not escaped."""
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


def page(datasets, folder, *, dark=False):
    """Write a page as notebooks show it: the HTML of an output in a page with styles of its own."""
    colours = ("#111111", "#e0e0e0") if dark else ("#ffffff", "#1f1f1f")
    body = f"background: {colours[0]}; color: {colours[1]}; font: 13px sans-serif"
    style = f"body {{ {body} }} td {{ text-align: right }}"
    head = f'<html lang="en"><meta charset="utf-8"><title>n</title><style>{style}</style>'
    shown = "<hr>".join(dataset._repr_html_() for dataset in datasets)
    path = folder / "notebook.html"
    path.write_text(f"{head}<main><h1>Notebook</h1>{shown}</main>", encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(("dark", "width"), [(False, DESKTOP), (True, PHONE)])
def test_it_fits_and_can_be_read(open_page, hostile, odd, tmp_path, dark, width):
    it = open_page(page(map(recordzoo.open, (odd, hostile)), tmp_path, dark=dark), width=width, dark=dark)
    assert it.page.locator("figure").count() == 24
    assert (it.sideways(), it.faults()) == (0, [])


def test_hostile_names_are_shown_as_they_are(open_page, hostile, tmp_path):
    it = open_page(page([recordzoo.open(hostile)], tmp_path))
    assert it.page.locator("script, iframe, svg, b, a, title ~ title").count() == 0
    alts = it.page.locator("img").evaluate_all("all => all.map((image) => image.alt)")
    assert len(alts) == 12
    assert all(image["w"] for image in it.page.evaluate("[...document.images].map((i) => ({w: i.naturalWidth}))"))
    assert '</script><img src=x onerror="alert(1)">' in alts[0]
    assert all(map(str.isprintable, alts))
