"""Make the readme of the package index from README.md, whose relative links would lead nowhere there.

With addresses in `[project.urls]` they become absolute: pages of ``docs/`` lead to the site ("Documentation"),
everything else to the files of this version ("Source"). Without an address, a link becomes plain text.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!\w+:)([^)\s#]*)(#[^)\s]*)?\)")
"""A link or an image of Markdown whose target has no scheme: mark, text, path, anchor."""


class ReadmeHook(MetadataHookInterface):
    """Sets the field `readme`, which `pyproject.toml` declares as dynamic."""

    # Any: the fields of `[project]`.
    def update(self, metadata: dict[str, Any]) -> None:
        """Add the readme to the fields of `[project]`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = with_links(text, metadata.get("urls", {}), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_links(text: str, urls: dict[str, str], version: str) -> str:
    """Rewrite the relative links of a page that lies in the root of the repository.

    Args:
        text: The page, in Markdown.
        urls: `[project.urls]`.
        version: The release, whose tag the links to files name.
    """

    def rewritten(link: re.Match[str]) -> str:
        mark, shown, path, anchor = link[1], link[2], link[3], link[4] or ""
        address = _address(path, urls, version, raw=bool(mark)) if path else ""
        return f"{mark}[{shown}]({address}{anchor})" if address or not path else shown

    return LINK.sub(rewritten, text)


def _address(path: str, urls: dict[str, str], version: str, *, raw: bool) -> str | None:
    page = re.fullmatch(r"docs/(.+)\.md", path)
    if page and "Documentation" in urls:
        name = re.sub(r"(^|/)index$", "", page[1])
        return f"{urls['Documentation'].rstrip('/')}/{name}{'/' if name else ''}"
    if "Source" in urls:
        return f"{urls['Source'].rstrip('/')}/{'raw' if raw else 'blob'}/v{version}/{path}"
    return None
