"""Which packages are installed where: the markers of pyproject.toml and what messages say of them."""

import itertools
import tomllib

import pytest
from packaging.requirements import Requirement

from recordzoo.base import settings as wheels
from recordzoo.base.settings import Interpreter, has_wheel, how_to_install, together
from tests.extras import PACKAGES
from tests.preparing import REPOSITORY

MACHINES = {
    "linux": ("x86_64", "aarch64", "riscv64", "ppc64le"),
    "darwin": ("x86_64", "arm64"),
    "win32": ("AMD64", "ARM64", "x86"),
}
PYTHONS = [(3, minor) for minor in range(11, 18)]


def project() -> dict:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("package", PACKAGES)
def test_markers_are_what_messages_say(package: str) -> None:
    requirements = [*project()["dependencies"], *project()["optional-dependencies"]["fast"]]
    (marker,) = [each.marker for each in map(Requirement, requirements) if each.name == package]
    assert marker is not None
    places = [(system, machine) for system, machines in MACHINES.items() for machine in machines]
    for implementation, place, python in itertools.product(("cpython", "pypy"), places, PYTHONS):
        each = Interpreter(implementation, *place, python)
        environment = {
            "implementation_name": each.implementation,
            "sys_platform": each.system,
            "platform_machine": each.machine,
            "python_version": "{}.{}".format(*each.version),
        }
        assert has_wheel(package, each) == marker.evaluate(environment), each
        is_later = each.version >= (3, 16)  # where it would be compiled, and stop `pip install recordzoo`
        assert not (is_later and has_wheel(package, each))


def test_the_wheel_that_hides_another_module_is_not_installed_unasked() -> None:
    """PyTurboJPEG, too, has a module `turbojpeg`."""
    assert {Requirement(each).name for each in project()["optional-dependencies"]["fast"]} == {"turbojpeg"}
    assert "turbojpeg" not in {Requirement(each).name for each in project()["dependencies"]}


def test_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "has_wheel", lambda package, interpreter: package != "isal")
    ways = [how_to_install(package) for package in ("numba", "isal", "turbojpeg", "numba")]
    assert together(ways).startswith("pip install --upgrade numba turbojpeg, and isal from conda-forge or its source")
    assert together(ways[1:2]) == ways[1]
