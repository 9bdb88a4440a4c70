"""Take pictures of the site and of `show --html`, to look at: python -m tests.screenshots SITE FOLDER.

SITE is the built site (`make docs` builds it into site/). Each page is taken 1280 and 390 pixels wide, light and dark.
"""

import itertools
import sys
import tempfile
from pathlib import Path

from recordzoo.cli.show import show
from recordzoo.preparing import ensure
from recordzoo.recipes.declared import dataset_recipe
from tests.browsing import DESKTOP, PHONE, served, start_chromium, watched
from tests.fakes import cub200

PAGES = {"home": "", "catalogue": "datasets/", "dataset": "datasets/cub200/", "benchmarks": "benchmarks/"}


def write_page(folder: Path) -> str:
    """Write a page of generated birds; returns its address."""
    cub200.build(5, 40, size=(260, 200)).write_tree(folder)
    path = ensure(dataset_recipe("cub200"), folder, prepare=True)
    target = folder / "birds.html"
    show(str(path), output=target, number=40)
    return target.as_uri()


def take(site: Path, folder: Path) -> None:
    """Write the pictures as ``<page>-<width>-<light|dark>.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, served(site) as url, start_chromium() as browser:
        pages = {**{name: url + path for name, path in PAGES.items()}, "show": write_page(Path(made))}
        for width, dark in itertools.product((DESKTOP, PHONE), (False, True)):
            with watched(browser, width=width, dark=dark) as it:
                it.page.set_viewport_size({"width": width, "height": 1600})
                for name, address in pages.items():
                    it.page.goto(address)
                    it.page.wait_for_timeout(300)
                    it.page.screenshot(path=folder / f"{name}-{width}-{'dark' if dark else 'light'}.png")


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
