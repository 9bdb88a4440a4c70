"""Optional packages: check that one is installed, and tell how to install it."""

import importlib.util

from recordzoo.errors import PrepareError


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


def need(package: str, use: str, extra: str = "formats") -> None:
    """Raise before any work if a package is not installed.

    Args:
        package: The package.
        use: The purpose, for the message: "TFRecord is read".
        extra: The extra of recordzoo that installs it.

    Raises:
        PrepareError: It is not installed.
    """
    if not is_installed(package):
        raise PrepareError(
            f"{use} with {package}, which is not installed. Run: pip install 'recordzoo[{extra}]'", package=package
        )
