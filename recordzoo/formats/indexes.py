"""``index.json``, with which MDS and LitData say which files a folder has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from recordzoo.errors import SourceError

INDEX = "index.json"


def find_indexes(location: str, is_one: Callable[[Any], bool], chunks: str) -> list[tuple[str, Path, dict[str, Any]]]:
    """Find the index of a folder, or of each of its folders, which are splits then.

    Args:
        location: The folder, or its index.
        is_one: Whether what an index holds is of the format.
        chunks: Glob pattern of the format's chunks: beside them, a missing or damaged index is an error.

    Returns:
        The name of the folder within the location ("" for itself), the folder, and what its index holds.

    Raises:
        SourceError: An index is missing or damaged.
    """
    path = Path(location)
    folder = path.parent if path.name == INDEX else path
    if not folder.is_dir():
        return []
    splits = [each for each in sorted(folder.iterdir()) if (each / INDEX).is_file()]
    found = []
    for each in [folder] if (folder / INDEX).is_file() or not splits else splits:
        document = _load(each / INDEX, chunks)
        if document is not None and is_one(document):
            found.append(("" if each == folder else each.name, each, cast(dict[str, Any], document)))
    return found


def _load(path: Path, chunks: str) -> Any:
    """Read an index; None if there is none and nothing beside it is of the format.

    Raises:
        SourceError: It is missing or damaged.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as err:
        if next(path.parent.glob(chunks), None) is None:
            return None
        what = "is missing" if isinstance(err, FileNotFoundError) else f"cannot be read ({err})"
        raise SourceError(f"{path} {what}; it names the files {chunks} beside it.", path=str(path)) from err


def file_in(folder: Path, name: Any, index: Path) -> Path:
    """Return the path of a file that an index names.

    Raises:
        SourceError: The name is none, or leads out of the folder.
    """
    if not isinstance(name, str) or not name or Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise SourceError(f"{index}: {str(name)[:200]!r} is no name of a file in this folder.", path=str(index))
    return folder / name


def check_there(paths: list[Path], folder: Path) -> None:
    """Refuse to go on without some of the files that an index names.

    Raises:
        SourceError: Some are missing.
    """
    if missing := [path.name for path in paths if not path.is_file()]:
        raise SourceError(
            f"{folder}: {len(missing)} of {len(paths)} files are missing: {', '.join(missing[:10])}"
            f"{' and more' if len(missing) > 10 else ''}.",
            path=str(folder),
        )
