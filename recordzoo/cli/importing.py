"""`import`: what another tool wrote becomes a record set."""

import itertools
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recordzoo.addresses import public_text
from recordzoo.cli import output
from recordzoo.cli.progress import make_progress
from recordzoo.cli.targets import refuse_urls
from recordzoo.custom.importing import import_records
from recordzoo.errors import ArgumentError
from recordzoo.formats.braces import without_braces
from recordzoo.preparing import is_record_set
from recordzoo.progress import format_seconds
from recordzoo.records.reader import RecordReader
from recordzoo.text import clean


def read_fields(words: Sequence[str]) -> dict[str, str]:
    """Read `KEY=FIELD` words.

    Raises:
        ArgumentError: One is none.
    """
    fields = {}
    for word in words:
        key, _, name = word.rpartition("=")
        if not key or not name:
            raise ArgumentError(f"--field {word}: it must be KEY=FIELD, such as jpeg=image.")
        fields[key] = name
    return fields


def default_place(path: str) -> Path:
    """Return PATH with the ending .records: ``train.records`` for ``train-{00..12}.tar.gz``.

    Of an address, it is the last part in the current directory; of a table in a file, the last part beside the file.
    """
    if "://" in path:
        name = public_text(path).partition("?")[0].rstrip("/").rpartition("/")[2]
        return Path(name).absolute().with_suffix(".records")
    whole = Path(path).absolute()
    name = re.sub(r"\.(tar|tar\.\w+|tgz)$", ".records", whole.name, flags=re.IGNORECASE)
    if "{" in path and not whole.exists():
        folder = Path(*itertools.takewhile(lambda part: "{" not in part, whole.parts))
        name = without_braces(name)
        return folder.with_suffix(".records") if name in ("", ".records") else (folder / name).with_suffix(".records")
    place = whole.with_name(name).with_suffix(".records")
    file = next((each for each in place.parents if each.is_file()), None)
    return place if file is None else file.with_name(place.name)


# Any: the options are checked by the library.
def import_foreign(
    path: str, target: Path | None, format: str | None, options: Mapping[str, Any], *, as_json: bool
) -> None:
    """Import what another tool wrote, and say what came of it."""
    refuse_urls("--output", target)
    place = target or default_place(path)
    was_ready = is_record_set(place) and not options["refresh"]
    began = time.monotonic()
    made = import_records(path, place, format=format, progress=make_progress(), **options)
    elapsed_s = time.monotonic() - began
    reader = RecordReader(made)
    metadata = reader.manifest.metadata
    wrote = str(metadata.get("format") or metadata["layout"])
    how = "" if was_ready else f", made in {format_seconds(max(1, elapsed_s))}"
    shown = public_text(path).partition("?")[0] if "://" in path else path  # options may have secrets, too
    output.say(f"{clean(shown)}: ready, {len(reader):,} records of {wrote} in {clean(str(made))}{how}")
    if as_json:
        output.put_json(
            {
                "path": str(made),
                "format": wrote,
                "records": len(reader),
                "was_ready": was_ready,
                "elapsed_s": round(elapsed_s, 3),
            }
        )
