"""`doctor`: print what was found."""

import dataclasses
from pathlib import Path

from recordzoo.aliases import JSON
from recordzoo.cli import output
from recordzoo.cli.doctor.advice import advice, problems
from recordzoo.cli.doctor.findings import Findings, examine
from recordzoo.cli.doctor.packages import own_version, python_version
from recordzoo.cli.exits import Exit
from recordzoo.cli.tables import wrapped, wrapping_width
from recordzoo.errors import NotPreparedError
from recordzoo.progress import format_bytes
from recordzoo.text import clean


def show_doctor(root: Path, *, speed: bool, as_json: bool) -> int:
    """Look at the installation, the machine and the disk; returns the exit code: 0 if recordzoo works here."""
    if not root.is_dir():
        raise NotPreparedError(f"--root {root} is not there.", path=str(root))
    found = examine(root, speed=speed)
    broken = problems(found)
    if as_json:
        output.put_json(document(found))
    else:
        output.put(wrapped("\n".join(_lines(found)), wrapping_width()))
        output.put(wrapped("\n".join(["", *_closing(found, broken)]), wrapping_width()))
    return Exit.FAILED if broken else Exit.OK


def document(found: Findings) -> dict[str, JSON]:
    """Make the JSON, under stable keys."""
    place = {**dataclasses.asdict(found.place), "path": str(found.place.path)}
    speeds = {name: dataclasses.asdict(each) if each else None for name, each in _speeds(found)}
    broken = problems(found)
    return {
        "ok": not broken,
        "recordzoo": own_version(),
        "python": python_version(),
        "essential": [_package(each) for each in found.essential],
        "optional": [_package(each) for each in found.optional],
        "machine": dataclasses.asdict(found.machine),
        "root": place,
        "proxies": found.proxies,
        "variables": [dataclasses.asdict(each) for each in found.variables],
        "speed": speeds,
        "problems": broken,
        "advice": advice(found),
    }


def _speeds(found: Findings) -> list[tuple[str, JSON]]:
    return [("disk", found.disk), ("decoder", found.decoder)]


def _package(each: JSON) -> dict[str, JSON]:
    return dataclasses.asdict(each)


def _lines(found: Findings) -> list[str]:
    lines = [f"recordzoo:     {own_version()}", f"Python:        {python_version()}"]
    lines += [f"{package.name + ':':<14} {package.version or 'missing'}" for package in found.essential]
    lines += ["", "optional packages:"]
    for package in found.optional:
        state = package.version if package.version and not package.problem else f"missing: {package.install}"
        lines.append(f"  {package.name + ':':<14} {state} ({package.purpose})")
    lines += ["", *_machine_lines(found), "", *_place_lines(found), "", *_outside_lines(found)]
    return [*lines, *_speed_lines(found)]


def _machine_lines(found: Findings) -> list[str]:
    machine = found.machine
    cores = f"{machine.usable_cores:,} of {machine.cores or machine.usable_cores:,}"
    quota = "" if machine.quota_cores is None else f"; the container gives the time of {machine.quota_cores:g}"
    limit = "" if machine.memory_limit_bytes is None else f"; limited to {format_bytes(machine.memory_limit_bytes)}"
    return [
        f"cores:         {cores}{quota}",
        f"memory:        {_bytes(machine.memory_bytes)}{limit}",
        f"/dev/shm:      {_bytes(machine.shared_memory_bytes)}",
        f"open files:    {'not limited' if machine.open_files is None else f'{machine.open_files:,} at most'}",
    ]


def _place_lines(found: Findings) -> list[str]:
    place = found.place
    kind = "not known" if place.file_system is None else f"{place.file_system}, mounted at {place.mounted_at}"
    writable = "" if place.is_writable else " (may not be written to)"
    return [
        f"root:          {clean(str(place.path))}{writable}",
        f"file system:   {clean(kind)}",
        f"free:          {format_bytes(place.free_bytes)} of {format_bytes(place.total_bytes)}",
    ]


def _outside_lines(found: Findings) -> list[str]:
    proxies = ", ".join(f"{scheme} {clean(address)}" for scheme, address in found.proxies.items())
    lines = [f"proxies:       {proxies or 'none'}"]
    lines += [f"variable:      {each.name}={clean(each.value)}" for each in found.variables]
    return lines if found.variables else [*lines, "variables:     none of recordzoo's is set"]


def _speed_lines(found: Findings) -> list[str]:
    lines = []
    if found.disk is not None:
        disk = found.disk
        cold = "" if disk.is_cold else " (out of the page cache: the system cannot be told to drop it)"
        lines += [
            f"disk writes:   about {format_bytes(int(disk.write_bytes_per_s))}/s, synced",
            f"disk reads:    about {format_bytes(int(disk.sequential_bytes_per_s))}/s in order; "
            f"{disk.random_reads_per_s:,.0f} random reads of 112 KiB a second{cold}",
        ]
    if found.decoder is not None:
        turbo = found.decoder.libjpeg_turbo
        with_turbo = "" if turbo is None else f", libjpeg-turbo {turbo:,.0f}"
        lines.append(
            f"decoding:      images of 500 x 375 a second on one core: Pillow {found.decoder.pillow:,.0f}{with_turbo}"
        )
    return ["", *lines] if lines else []


def _closing(found: Findings, broken: list[str]) -> list[str]:
    lines = [f"broken: {clean(text)}" for text in broken]
    lines += [f"advice: {clean(text)}" for text in advice(found)]
    return [*lines, *([] if broken else ["recordzoo works here."])]


def _bytes(value: int | None) -> str:
    return "not known" if value is None else format_bytes(value)
