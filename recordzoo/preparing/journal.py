"""The plan and the journal of a build, as bytes: canonical JSON, each journal line with its CRC-32."""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PLAN_NAME = "plan.json"
JOURNAL_NAME = "journal.jsonl"


# Any, here and below: JSON values.
def canonical(document: Mapping[str, Any]) -> bytes:
    """Write a document: the same document gives the same bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def encode_line(document: Mapping[str, Any]) -> bytes:
    """Write a journal line: a JSON list of the document's CRC-32 and the document."""
    data = canonical(document)
    return b"[%d,%b]\n" % (zlib.crc32(data), data)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the journal's documents up to the first line that is torn or damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for line in data.split(b"\n")[:-1]:
        try:
            crc, document = json.loads(line)
        except (ValueError, TypeError):
            return
        if crc != zlib.crc32(canonical(document)):
            return
        yield document


def plan_digest(plan: Mapping[str, Any]) -> str:
    """Return the identity of a plan."""
    return hashlib.sha256(canonical(plan)).hexdigest()


def read_plan(build: Path) -> dict[str, Any] | None:
    """Read the plan of a build directory; None if it has none yet."""
    try:
        plan: dict[str, Any] = json.loads((build / PLAN_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return plan
