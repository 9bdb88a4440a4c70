"""The plan of a build: what is made, from what and how. A build goes on only with the same plan."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLAN_NAME = "plan.json"


# Any, here and below: JSON values.
def canonical(document: Mapping[str, Any]) -> bytes:
    """Write a document: the same document gives the same bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


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
