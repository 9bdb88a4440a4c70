"""Write the generated files that are committed: the stubs for type checkers.

    python docs/generate.py             # writes
    python docs/generate.py --check     # fails where one is stale

All else that is generated is made while the site is built (`docs/hooks.py`).
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from docs.parts import api  # noqa: E402

STUBS = {"recordzoo/__init__.pyi": api.stub, "recordzoo/datasets/__init__.pyi": api.datasets_stub}


def stale() -> dict[str, str]:
    """Return the files that are not as they should be, and what they should be."""
    fresh = {name: stub() for name, stub in STUBS.items()}
    return {name: text for name, text in fresh.items() if _text(name) != text}


def _text(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    found = stale()
    if "--check" in sys.argv[1:]:
        sys.exit(f"stale: {', '.join(found)}; run: make generate" if found else 0)
    for name, text in found.items():
        (ROOT / name).write_text(text, encoding="utf-8")
