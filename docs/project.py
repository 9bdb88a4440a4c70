"""What the site takes from the project: its addresses, and CHANGELOG.md as a page (a hook of mkdocs)."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from recordzoo import __version__
from recordzoo import errors as project

ROOT = Path(__file__).parent.parent


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the version below each page, and the addresses of site and repository as far as `[project.urls]` has them."""
    config.copyright = f"recordzoo {__version__}"
    config.site_url = project.url("Documentation")
    config.repo_url = project.url("Source")
    if config.repo_url is not None:
        config.repo_name = config.site_name
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the changelog to the pages."""
    files.append(File.generated(config, "changelog.md", content=changelog()))
    return files


def changelog() -> str:
    """Return CHANGELOG.md with its links to pages relative to ``docs/``."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
