"""Optional packages: whether one is installed, and the error that says how to install it."""

import importlib.util

from recordzoo.errors import PrepareError


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # that of which it is a part
        return False


def need(package: str, extra: str, use: str) -> None:
    """Refuse to go on without a package, before anything is done.

    Args:
        package: The package.
        extra: The extra of recordzoo that installs it.
        use: What it is needed for: "TFRecord is read".

    Raises:
        PrepareError: It is not installed.
    """
    if not is_installed(package):
        raise PrepareError(
            f"{use} with {package}, which is not installed. Run: pip install 'recordzoo[{extra}]'", package=package
        )
