"""Ask every address of the catalogue's raw files, mirrors included, for its size, and compare. Nothing is downloaded.

    python -m tools.check_sources                       # all datasets
    python -m tools.check_sources cub200 --only-bad
    python -m tools.check_sources --json docs/sources.json    # for the site

The exit code is 1 if an address is gone, refuses, or has another file.
"""

import argparse
import datetime
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from recordzoo import catalogue
from recordzoo.base.text import JSON, Address, public_url
from recordzoo.catalogue import Entry, FileFacts
from recordzoo.cli.options import table, wrapping_width
from recordzoo.errors import ArgumentError, DownloadError
from recordzoo.net import http
from recordzoo.net.http import Session, TryAgainError

_ATTEMPTS = 2


class State(StrEnum):
    """What an address answers."""

    OK = "ok"
    UNCOMPARED = "uncompared"  # it has a file; its size is not known to us, or not said by the host
    OTHER_SIZE = "other size"
    WEB_PAGE = "web page"
    REFUSED = "refused"  # any status of 4xx but those of "gone", a certificate, a redirect that is not followed
    GONE = "gone"  # 404 or 410
    UNREACHABLE = "unreachable"  # no answer, or an error of the server

    @property
    def is_bad(self) -> bool:
        """Whether a maintainer has to look at the address."""
        return self not in (State.OK, State.UNCOMPARED)


@dataclass(frozen=True, slots=True)
class Probe:
    """An address's answer.

    Attributes:
        url: The address, without a login.
        state: Its meaning.
        size_bytes: The size that the host says; None if it does not.
        said: The error, or the title of the web page; "" if all is well.
    """

    url: str
    state: State
    size_bytes: int | None = None
    said: str = ""


def probe(url: str, size_bytes: int | None) -> Probe:
    """Ask for the first byte of a file; after a passing failure, ask once more.

    Args:
        url: Its address.
        size_bytes: The size that it should have, if known.
    """
    address = Address.parse(url)
    said = ""
    for _ in range(_ATTEMPTS):
        try:
            return _ask(address, size_bytes)
        except TryAgainError as err:
            said = str(err)
        except DownloadError as err:
            gone = err.details.get("status") in (404, 410)
            return Probe(address.url, State.GONE if gone else State.REFUSED, said=str(err))
    return Probe(address.url, State.UNREACHABLE, said=said)


def _ask(address: Address, size_bytes: int | None) -> Probe:
    with Session() as session, http.get(session, address, {"Range": "bytes=0-0"}) as answer:
        title = None if answer.status == 416 else answer.page_title(answer.read())
        if title is not None:
            return Probe(address.url, State.WEB_PAGE, said=title)
        total = answer.total
    if total is None or size_bytes is None:
        return Probe(address.url, State.UNCOMPARED, total)
    return Probe(address.url, State.OK if total == size_bytes else State.OTHER_SIZE, total)


@dataclass(frozen=True)
class _Row:
    entry: Entry
    file: FileFacts
    answer: Probe


def check(names: Sequence[str], *, jobs: int, only_bad: bool, json_file: Path | None = None) -> bool:
    """Print a line for each address; returns whether all are as they should be.

    Args:
        names: Datasets; none for all.
        jobs: How many addresses are asked at once.
        only_bad: Leave out the addresses that are as they should be.
        json_file: Where the answers of all addresses are written.

    Raises:
        ArgumentError: There is no such dataset.
    """
    entries = [catalogue.entry(name) for name in names or catalogue.names()]
    wanted = [(entry, file, url) for entry in entries for file in entry.files for url in file.urls]
    with ThreadPoolExecutor(jobs) as pool:
        answers = pool.map(lambda each: probe(each[2], each[1].size_bytes), wanted)
        rows = [_Row(entry, file, answer) for (entry, file, _), answer in zip(wanted, answers, strict=True)]
    if json_file:
        json_file.write_text(json.dumps(_document(rows), indent=1) + "\n", encoding="utf-8")
    bad = [row for row in rows if row.answer.state.is_bad]
    head = ("DATASET", "FILE", "STATE", "SIZE", "EXPECTED", "ADDRESS")
    print(table(head, [_cells(row) for row in (bad if only_bad else rows)], wrapping_width()))
    for row in bad:
        print(f"{row.entry.name}: {_sentence(row)}", file=sys.stderr)
    print(f"{len(rows):,} addresses: {_counts(rows)}.", file=sys.stderr)
    return not bad


def _document(rows: Sequence[_Row]) -> dict[str, JSON]:
    """Return what `docs/parts/sources.py` reads."""
    answers: list[JSON] = [
        {
            "dataset": row.entry.name,
            "file": row.file.name,
            "url": row.answer.url,
            "state": row.answer.state.value,
            "bad": row.answer.state.is_bad,
            "said": _sentence(row) if row.answer.state.is_bad else "",
        }
        for row in rows
    ]
    return {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "addresses": answers}


def _cells(row: _Row) -> tuple[str, ...]:
    answer = row.answer
    sizes = _bytes(answer.size_bytes), _bytes(row.file.size_bytes)
    return row.entry.name, row.file.name, answer.state.value, *sizes, public_url(answer.url)


def _sentence(row: _Row) -> str:
    answer = row.answer
    if answer.state is State.OTHER_SIZE:
        return f"{answer.url} has {_bytes(answer.size_bytes)} bytes, not {_bytes(row.file.size_bytes)}."
    if answer.state is State.WEB_PAGE:
        return f"{answer.url} sends a web page titled {answer.said!r}."
    return answer.said if answer.url in answer.said else f"{answer.url}: {answer.said}."


def _counts(rows: Sequence[_Row]) -> str:
    counts = {state: sum(row.answer.state is state for row in rows) for state in State}
    return ", ".join(f"{state.value} {count:,}" for state, count in counts.items() if count)


def _bytes(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="datasets (default: all)")
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="addresses asked at once (default: 8)")
    parser.add_argument("--only-bad", action="store_true", help="leave out the addresses that are as they should be")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all answers there")
    asked = parser.parse_args(arguments)
    try:
        return 0 if check(asked.names, jobs=asked.jobs, only_bad=asked.only_bad, json_file=asked.json) else 1
    except ArgumentError as err:
        parser.error(str(err))


if __name__ == "__main__":
    sys.exit(main())
