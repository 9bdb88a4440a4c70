"""What mkdocs calls while it builds the site: pages and parts that are generated are put in.

A page and Croissant metadata for each dataset are added as files; ``<!-- generated: NAME -->`` in a page becomes the
part of that name (`docs/parts/register.py`). With ``RECORDZOO_DOCS_FAKES=0`` the site has no drawn samples and nothing
else that is found out from the fakes: it is built in half of the time.
"""

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent.parent))

from docs.parts import cells, dataset_page, register
from recordzoo import catalogue


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page and Croissant metadata for each dataset."""
    for name in catalogue.names():
        files.append(File.generated(config, f"datasets/{name}.md", content=dataset_page.page(name)))
        files.append(File.generated(config, dataset_page.croissant_address(name), content=dataset_page.metadata(name)))
    return files


_GUIDES = ("Install", "Datasets", "Your data", "Train", "Store")
"""Parts of the navigation whose pages the search shows first; pages of single datasets come next."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the generated parts of a page in, and say what it weighs in the search."""
    part = page.ancestors[-1].title if page.ancestors else page.title
    is_dataset = page.file.src_uri.startswith("datasets/")
    page.meta["search"] = {"boost": 3 if part in _GUIDES else 1.5 if is_dataset else 1}
    try:
        return register.expanded(markdown)
    except KeyError as err:
        raise PluginError(f"{page.file.src_uri}: there is no generated part {err}") from err


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let long code in tables break, and leave out empty heads."""
    return cells.breakable(cells.named_heads(html))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the search for screen readers; put the Croissant metadata into the page of a dataset, for search engines."""
    output = output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder != "datasets" or name not in catalogue.names():
        return output
    script = f'<script type="application/ld+json">\n{dataset_page.metadata(name)}</script>\n'
    return output.replace("</head>", f"{script}</head>", 1)
