"""Which packages are installed where: the markers of pyproject.toml, and what messages advise."""

import itertools
import tomllib

import pytest
from packaging.requirements import Requirement

from recordzoo.base.settings import how_to_install, together
from tests.extras import PACKAGES
from tests.preparing import REPOSITORY

MACHINES = {
    "linux": ("x86_64", "aarch64", "riscv64", "ppc64le"),
    "darwin": ("x86_64", "arm64"),
    "win32": ("AMD64", "ARM64", "x86"),
}
PYTHONS = range(11, 18)


def project() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_python_without_wheels_compiles_it(package: str) -> None:
    """That would take long, or stop `pip install recordzoo`."""
    requirements = [*project()["dependencies"], *project()["optional-dependencies"]["fast"]]
    (marker,) = [each.marker for each in map(Requirement, requirements) if each.name == package]
    assert marker is not None
    found = set()
    places = [(system, machine) for system, machines in MACHINES.items() for machine in machines]
    for implementation, (system, machine), python in itertools.product(("cpython", "pypy"), places, PYTHONS):
        environment = {
            "implementation_name": implementation,
            "sys_platform": system,
            "platform_machine": machine,
            "python_version": f"3.{python}",
        }
        if marker.evaluate(environment):
            found.add((implementation, python))
    assert ("cpython", 11) in found
    assert {implementation for implementation, _ in found} == {"cpython"}
    assert max(python for _, python in found) < 16


def test_the_wheel_that_hides_another_module_is_not_installed_unasked() -> None:
    """PyTurboJPEG, too, has a module `turbojpeg`."""
    assert {Requirement(each).name for each in project()["optional-dependencies"]["fast"]} == {"turbojpeg"}
    assert "turbojpeg" not in {Requirement(each).name for each in project()["dependencies"]}


def test_how_to_install() -> None:
    ways = [how_to_install(package) for package in ("numba", "isal", "numba")]
    assert together([*ways, "the system's library"]) == "pip install --upgrade numba isal, and the system's library"
