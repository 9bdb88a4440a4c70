"""Versions of the packages that recordzoo needs, and which optional packages are installed."""

import importlib
import importlib.metadata
import platform
from collections.abc import Callable
from dataclasses import dataclass

from recordzoo.system.names import PLATFORM
from recordzoo.system.wheels import how_to_install

ESSENTIAL = ("torch", "torchvision", "lmdb", "pillow", "numpy")
_MODULES = {"pillow": "PIL"}


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package, or one that is missing.

    Attributes:
        name: As pip calls it.
        version: Its version; None if it is not installed.
        problem: Why it cannot be imported; "" if it can, or is not installed.
        purpose: What it is for.
        install: The command that adds it; "" if it is there.
    """

    name: str
    version: str | None
    problem: str = ""
    purpose: str = ""
    install: str = ""


@dataclass(frozen=True, slots=True)
class _Optional:
    name: str
    module: str
    purpose: str
    install: str = ""  # "": as `how_to_install` says


_OPTIONAL = (
    _Optional("numba", "numba", "RecordLoader: decodes and resizes in compiled code"),
    _Optional("isal", "isal.isal_zlib", "checksums of values, 13 times as fast as zlib"),
    _Optional("simplejpeg", "simplejpeg", "whole JPEGs, where there is no libjpeg-turbo 3"),
    _Optional("h5py", "h5py", "HDF5 files", "pip install 'recordzoo[hdf5]'"),
    _Optional(
        "pycocotools",
        "pycocotools.coco",
        "annotations of COCO, as torchvision reads them",
        "pip install 'recordzoo[coco]'",
    ),
    _Optional("distributed", "distributed", "conversion on a Dask cluster", "pip install 'recordzoo[dask]'"),
    _Optional("pyarrow", "pyarrow.parquet", "Hugging Face's datasets, Parquet", "pip install 'recordzoo[parquet]'"),
)


def essential() -> list[Package]:
    """Import the packages that nothing works without. Takes seconds: torch is one of them."""
    return [_imported(name, _MODULES.get(name, name)) for name in ESSENTIAL]


def optional() -> list[Package]:
    """Import the packages that make something faster or possible; libjpeg-turbo is a library behind one of them."""
    return [_turbojpeg(), *(_described(each) for each in _OPTIONAL)]


def own_version() -> str:
    """Return the version of recordzoo."""
    from recordzoo import __version__

    return __version__


def python_version() -> str:
    """Return the version of Python, and for which machine it is."""
    return f"{platform.python_version()} ({PLATFORM}, {platform.machine()})"


def _imported(name: str, module: str) -> Package:
    version = _version(name)
    if version is None:
        return Package(name, None, install=f"pip install {name}")
    return Package(name, version, _problem(lambda: importlib.import_module(module)))


def _described(each: _Optional) -> Package:
    found = _imported(each.name, each.module)
    install = "" if found.version and not found.problem else each.install or how_to_install(each.name)
    return Package(each.name, found.version, found.problem, each.purpose, install)


def _turbojpeg() -> Package:
    name, purpose = "libjpeg-turbo", "RecordLoader: decodes only the part of a JPEG that is used"
    try:
        from recordzoo.loading.turbojpeg import how_to_install_library, library
    except Exception as err:  # noqa: BLE001 - NumPy is missing or broken, which is said elsewhere
        return Package(name, None, purpose=purpose, install=f"not looked for: {err}")
    found = library()
    if found is not None:
        return Package(name, "3", purpose=purpose)
    return Package(name, None, purpose=purpose, install=how_to_install_library())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _problem(load: Callable[[], object]) -> str:
    """Return why an import fails; a broken package may raise anything."""
    try:
        load()
    except Exception as err:  # noqa: BLE001 - as above
        return f"{type(err).__name__}: {err}".split("\n")[0]
    return ""
