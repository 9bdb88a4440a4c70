"""All that `doctor` finds out."""

from dataclasses import dataclass
from pathlib import Path

from recordzoo.cli.doctor.machine import Machine, machine
from recordzoo.cli.doctor.packages import Package, essential, optional
from recordzoo.cli.doctor.place import Place, place
from recordzoo.cli.doctor.speed import DecoderSpeed, DiskSpeed, decoder_speed, disk_speed
from recordzoo.cli.doctor.surroundings import Variable, known_variables, proxies, variables


@dataclass(frozen=True)
class Findings:
    """What was found; None is what was not tried, or could not be."""

    essential: list[Package]
    optional: list[Package]
    machine: Machine
    place: Place
    proxies: dict[str, str]
    variables: list[Variable]
    known_variables: list[str]
    disk: DiskSpeed | None
    decoder: DecoderSpeed | None


def examine(root: Path, *, speed: bool) -> Findings:
    """Look at everything.

    Args:
        root: Where record sets are, or would be.
        speed: Whether disk and decoder are tried, which takes two seconds.

    Raises:
        OSError: The root is not there.
    """
    packages, where = essential(), place(root)
    can_decode = all(package.version and not package.problem for package in packages if package.name in _DECODE)
    return Findings(
        essential=packages,
        optional=optional(),
        machine=machine(),
        place=where,
        proxies=proxies(),
        variables=variables(),
        known_variables=sorted(known_variables()),
        disk=disk_speed(where.path, where.free_bytes) if speed and where.is_writable else None,
        decoder=decoder_speed() if speed and can_decode else None,
    )


_DECODE = ("pillow", "numpy")
