"""Write the generated files that are committed: README's list of datasets, and the stubs for type checkers.

    python docs/generate.py             # writes
    python docs/generate.py --check     # fails where one is stale

All else that is generated is made while the site is built (`docs/hooks.py`).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from docs.parts import api, overview  # noqa: E402

README = "README.md"
STUBS = {"recordzoo/__init__.pyi": api.stub, "recordzoo/datasets/__init__.pyi": api.datasets_stub}
NAMES = (README, *STUBS)
_BEGIN, _END = "<!-- generated: datasets -->", "<!-- end of generated: datasets -->"


def updated(name: str) -> str:
    """Return a file as it should be."""
    if name in STUBS:
        return STUBS[name]()
    text = (ROOT / name).read_text(encoding="utf-8")
    if text.count(_BEGIN) != 1 or text.count(_END) != 1:
        sys.exit(f"{name} must have {_BEGIN} and {_END} once.")
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}\n\n{overview.readme_list()}\n\n{_END}{rest.partition(_END)[2]}"


def main(arguments: Sequence[str]) -> None:
    """Write the files, or say which are stale."""
    stale = [name for name in NAMES if _text(name) != updated(name)]
    if "--check" in arguments:
        sys.exit(f"stale: {', '.join(stale)}; run: make generate" if stale else 0)
    for name in stale:
        (ROOT / name).write_text(updated(name), encoding="utf-8")


def _text(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    main(sys.argv[1:])
