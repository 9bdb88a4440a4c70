"""`import`: another tool's LMDB databases become a record set."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recordzoo.cli import output
from recordzoo.cli.progress import make_progress
from recordzoo.custom.importing import import_records
from recordzoo.preparing import is_record_set
from recordzoo.progress import format_seconds
from recordzoo.records.reader import RecordReader
from recordzoo.text import clean


# Any: the options and the layout's name are checked by the library.
def import_databases(
    path: Path, target: Path | None, layout: Any, options: Mapping[str, Any], *, as_json: bool
) -> None:
    """Import databases and say what came of it."""
    place = target or path.absolute().with_suffix(".records")
    was_ready = is_record_set(place) and not options["refresh"]
    began = time.monotonic()
    made = import_records(path, place, format=layout, progress=make_progress(), **options)
    elapsed_s = time.monotonic() - began
    reader = RecordReader(made)
    wrote = str(reader.manifest.metadata["layout"])
    how = "" if was_ready else f", made in {format_seconds(elapsed_s)}"
    output.say(f"{clean(str(path))}: ready, {len(reader):,} records of {wrote} in {clean(str(made))}{how}")
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
