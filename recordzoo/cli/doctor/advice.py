"""Turn what `doctor` found into problems and advice, in plain words."""

from collections.abc import Iterator

from recordzoo.cli.doctor.findings import Findings
from recordzoo.cli.doctor.packages import Package
from recordzoo.progress import format_bytes
from recordzoo.system.wheels import together

_LOW_MEMORY = 4 << 30
_LOW_SHARED = 1 << 30
_LOW_FREE = 5 << 30
_LOW_FILES = 1024
_FEW_READS = 300
_SPEED_PACKAGES = ("libjpeg-turbo", "numba", "isal")


def problems(found: Findings) -> list[str]:
    """Say what is broken, so that recordzoo does not work; none if it does."""
    return list(_problems(found))


def advice(found: Findings) -> list[str]:
    """Say what would make it faster, or may go wrong."""
    return list(_advice(found))


def _problems(found: Findings) -> Iterator[str]:
    for package in found.essential:
        if package.version is None:
            yield f"{package.name} is not installed: {package.install}"
        elif package.problem:
            yield f"{package.name} {package.version} cannot be imported: {package.problem}"
    if found.place.problem:
        yield f"{found.place.path}: {found.place.problem}. Keep record sets on another volume."
    for variable in found.variables:
        if variable.problem and variable.name in found.known_variables:
            yield variable.problem


def _advice(found: Findings) -> Iterator[str]:
    yield from _about_packages(found.optional)
    machine, place = found.machine, found.place
    if machine.quota_cores is not None and machine.quota_cores < machine.usable_cores:
        yield (
            f"The container gives the time of {machine.quota_cores:g} cores, and {machine.usable_cores} are visible: "
            f"pass --workers {max(1, round(machine.quota_cores))} to `prepare`, and as num_workers to loaders."
        )
    memory = min((size for size in (machine.memory_bytes, machine.memory_limit_bytes) if size), default=None)
    if memory is not None and memory < _LOW_MEMORY:
        yield f"{format_bytes(memory)} of memory is little: pass --workers 2 to `prepare` if it is killed."
    if machine.shared_memory_bytes is not None and machine.shared_memory_bytes < _LOW_SHARED:
        yield (
            f"/dev/shm has {format_bytes(machine.shared_memory_bytes)}: workers of DataLoader may die of a bus error. "
            "Start the container with --shm-size 8g, or use RecordLoader, which has threads."
        )
    if machine.open_files is not None and machine.open_files < _LOW_FILES:
        yield f"A process may have {machine.open_files:,} files open; raise that with: ulimit -n 4096"
    if place.caveat:
        yield f"{place.path} is on {place.file_system}: {place.caveat}."
    if not place.is_writable:
        yield f"{place.path} may not be written to: pass --root with a directory that may."
    elif place.free_bytes < _LOW_FREE:
        yield f"{place.path} has {format_bytes(place.free_bytes)} free; `recordzoo cache ls` shows what can be deleted."
    if found.disk is not None and found.disk.is_cold and found.disk.random_reads_per_s < _FEW_READS:
        yield (
            f"The disk does {found.disk.random_reads_per_s:,.0f} random reads a second: it seeks. Shuffle by blocks, "
            "or copy the record set to a faster disk."
        )
    for variable in found.variables:
        if variable.name == "RECORDZOO_OFFLINE" and not variable.problem and variable.value.lower() in ("1", "true"):
            yield "RECORDZOO_OFFLINE is set: nothing is downloaded."
        elif variable.problem and variable.name not in found.known_variables:
            yield f"{variable.name} is set: {variable.problem}"


def _about_packages(packages: list[Package]) -> Iterator[str]:
    missing = [package for package in packages if package.install and package.name in _SPEED_PACKAGES]
    if missing:
        names = ", ".join(package.name for package in missing)
        yield f"For faster reading add {names}: {together(package.install for package in missing)}"
    for package in packages:
        if package.problem:
            yield f"{package.name} {package.version} cannot be imported: {package.problem}"
