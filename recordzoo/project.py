"""Addresses of the project: ``[project.urls]`` of pyproject.toml, as the installed package carries them."""

from functools import cache


@cache
def url(label: str) -> str | None:
    """Return the address with this label ("Documentation", "Source", ...); None if the project has none yet."""
    # Not at the top: it imports `email`, a tenth of what a process of a preparation imports.
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        lines = metadata("recordzoo").get_all("Project-URL") or ()
    except PackageNotFoundError:  # a copy of the sources that was not installed
        return None
    addresses = {name.lower(): address for name, _, address in (line.partition(", ") for line in lines)}
    return addresses.get(label.lower())


def page(path: str) -> str | None:
    """Return the address of a page of the documentation, such as ``errors/#forkerror``; None if there is no site."""
    site = url("Documentation")
    return site and f"{site.rstrip('/')}/{path}"
