"""The packages that make recordzoo faster: which of them are there, and which should be.

A test that cannot do without one says so: ``@pytest.mark.needs("numba")``. It is skipped where that is missing. That is
an error of the installation unless pytest was started with ``--bare`` or the package has no wheel for this machine.
"""

import functools
import importlib.metadata
import importlib.util

from packaging.requirements import Requirement

from recordzoo.images import turbojpeg

PACKAGES = ("isal", "numba", "simplejpeg", "turbojpeg")
"""The packages whose absence changes what recordzoo does; the mark `needs` takes these names."""


@functools.cache
def missing() -> frozenset[str]:
    """Return the packages that are not there. A libjpeg-turbo of the system's is as good as the package."""
    there = {name: importlib.util.find_spec(name) is not None for name in PACKAGES}
    there["turbojpeg"] = turbojpeg.library() is not None
    return frozenset(name for name, is_there in there.items() if not is_there)


@functools.cache
def wanted() -> frozenset[str]:
    """Return those that `recordzoo[fast]` installs on this machine."""
    requirements = map(Requirement, importlib.metadata.requires("recordzoo") or ())
    return frozenset(
        each.name
        for each in requirements
        if each.name in PACKAGES and (each.marker is None or each.marker.evaluate({"extra": "fast"}))
    )
