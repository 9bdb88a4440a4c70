"""What the program knows of its errors, for docs/errors.md: the tree, how each is caught, exit codes, attributes."""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from docs.parts.markdown import table
from recordzoo import errors
from recordzoo.cli.app import exit_code
from recordzoo.errors import RecordZooError

PACKAGE = Path(errors.__file__).parent

KINDS = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, RecordZooError)]
"""Every class of the tree, parents before children."""

MEANINGS = {
    "classes": "the classes without images",
    "expected": "the size or hash that was expected",
    "reasons": "why an LMDB database is of none of the known layouts, by their names",
    "sample": "of an LMDB database, the first key, and how its value begins",
    "field": "the field, such as `image` or `target`",
    "found": "the size or hash that was found",
    "lines": "the numbers of the lines, from 1",
    "inner": "the archive within the archive",
    "meant": "the known name that is most alike",
    "member": "the name of the file within the archive",
    "missing_bytes": "how many bytes are missing; 0 if not known",
    "name": "the record's name; of an `ArgumentError` the name that is not known",
    "num_images": "how many images lie there without a class folder",
    "num_missing": "how many files are missing",
    "offset": "the byte of the archive, unpacked, at which it was noticed",
    "package": "the package to install",
    "path": "the file or directory",
    "position": "the number of the sample or record, from 0",
    "problems": "each file with its problem",
    "root": "the directory in which raw data and records were looked for",
    "split": "the split that was asked for",
    "status": "the HTTP status",
    "url": "the address",
    "variant": "the variant that is there",
    "version": "the format's version that was found",
}
"""What each attribute says."""

INTERNAL = {"worthless"}
"""Details that only recordzoo's own code reads."""

_CALL = re.compile(rf"\b({'|'.join(kind.__name__ for kind in KINDS)})\(")


def tree(kind: type[RecordZooError] = RecordZooError, depth: int = 0) -> str:
    """The tree as a list in a list: each error with its section, the builtins that catch it, exit code and meaning."""
    builtins = ", ".join(f"`{base.__name__}`" for base in kind.__bases__ if base not in (*KINDS, Exception))
    caught = f" ({builtins})" if builtins else ""
    said = (kind.__doc__ or "").partition("\n")[0]
    names = ", ".join(f"`{name}`" for name in sorted(attributes().get(kind.__name__, ())))
    given = f"; {names}" if names else ""
    line = (
        f"{' ' * 4 * depth}- [{kind.__name__}](#{kind.__name__.lower()}){caught}: {said[0].lower()}{said[1:-1]} "
        f"(exit code {int(exit_code(kind()))}{given})"
    )
    return "\n".join([line, *(tree(child, depth + 1) for child in KINDS if child.__bases__[0] is kind)])


def meanings() -> str:
    """A table of what the attributes of errors say."""
    given = sorted(set().union(*attributes().values()))
    return table(("attribute", "meaning"), [(f"`{name}`", MEANINGS[name]) for name in given])


@functools.cache
def attributes() -> dict[str, set[str]]:
    """For each class the details that some place in the package gives it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for name, call in _calls(path.read_text(encoding="utf-8")):
            found[name] |= {keyword.arg for keyword in call.keywords if keyword.arg} - INTERNAL
    return found


def _calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    """Find where errors are made. Each call is parsed by itself: to parse the whole package takes seconds."""
    for match in _CALL.finditer(source):
        for end in re.finditer(r"\)", source[match.start() :]):
            try:
                made = ast.parse(source[match.start() :][: end.end()], mode="eval").body
            except SyntaxError:  # a parenthesis within it
                continue
            assert isinstance(made, ast.Call)
            yield match[1], made
            break
