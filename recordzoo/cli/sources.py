"""`check-sources`: ask every address of the catalogue's raw files for its size. For maintainers, now and then."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from recordzoo import catalogue, settings
from recordzoo.addresses import public_url
from recordzoo.aliases import JSON
from recordzoo.catalogue import Entry, FileFacts
from recordzoo.cli import output
from recordzoo.cli.exits import Exit
from recordzoo.cli.tables import table, wrapping_width
from recordzoo.errors import ArgumentError
from recordzoo.sources.probe import Probe, State, probe


@dataclass(frozen=True)
class _Row:
    entry: Entry
    file: FileFacts
    answer: Probe

    @property
    def document(self) -> dict[str, JSON]:
        return {
            "dataset": self.entry.name,
            "file": self.file.name,
            "url": self.answer.url,
            "state": self.answer.state.value,
            "size_bytes": self.answer.size_bytes,
            "expected_bytes": self.file.size_bytes,
            "said": self.answer.said,
        }


def check_sources(names: Sequence[str], *, jobs: int, only_bad: bool, as_json: bool) -> int:
    """Print a line for each address; returns the exit code.

    Args:
        names: Datasets; none for all.
        jobs: How many addresses are asked at once.
        only_bad: Leave out the addresses that are as they should be.

    Raises:
        ArgumentError: There is no such dataset; or ``RECORDZOO_OFFLINE`` is set.
    """
    if settings.offline():
        raise ArgumentError("RECORDZOO_OFFLINE is set, so no address is asked. Unset it.")
    entries = [catalogue.entry(name) for name in names or catalogue.names()]
    wanted = [(entry, file, url) for entry in entries for file in entry.files for url in file.urls]
    with ThreadPoolExecutor(jobs) as pool:
        answers = pool.map(lambda each: probe(each[2], each[1].size_bytes), wanted)
        rows = [_Row(entry, file, answer) for (entry, file, _), answer in zip(wanted, answers, strict=True)]
    bad = [row for row in rows if row.answer.state.is_bad]
    shown = bad if only_bad else rows
    if as_json:
        output.put_json({"sources": [row.document for row in shown]})
    else:
        head = ("DATASET", "FILE", "STATE", "SIZE", "EXPECTED", "ADDRESS")
        output.put(table(head, [_cells(row) for row in shown], wrapping_width()))
        for row in bad:
            output.say(f"{row.entry.name}: {_sentence(row)}")
        output.say(f"{len(rows):,} addresses: {_counts(rows)}.")
    return Exit.NETWORK if bad else Exit.OK


def _cells(row: _Row) -> tuple[str, ...]:
    answer = row.answer
    return (
        row.entry.name,
        row.file.name,
        answer.state.value,
        _bytes(answer.size_bytes),
        _bytes(row.file.size_bytes),
        public_url(answer.url),
    )


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
