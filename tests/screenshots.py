"""Take pictures of the site, to look at: python -m tests.screenshots SITE FOLDER.

SITE is the built site (`make docs` builds it into site/). Each page is taken 1280 and 390 pixels wide, light and dark.
"""

import itertools
import sys
from pathlib import Path

from tests.browsing import DESKTOP, PHONE, served, start_chromium, watched

PAGES = {"home": "", "catalogue": "datasets/", "dataset": "datasets/cub200/", "benchmarks": "benchmarks/"}


def take(site: Path, folder: Path) -> None:
    """Write the pictures as ``<page>-<width>-<light|dark>.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    with served(site) as url, start_chromium() as browser:
        for width, dark in itertools.product((DESKTOP, PHONE), (False, True)):
            with watched(browser, width=width, dark=dark) as it:
                it.page.set_viewport_size({"width": width, "height": 1600})
                for name, path in PAGES.items():
                    it.page.goto(url + path)
                    it.page.wait_for_timeout(300)
                    it.page.screenshot(path=folder / f"{name}-{width}-{'dark' if dark else 'light'}.png")


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
