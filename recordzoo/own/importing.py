"""`import_records`: an earlier tool's LMDB databases → a record set."""

import os
from pathlib import Path
from typing import Literal, Unpack

from recordzoo.errors import OtherSourceError
from recordzoo.own.options import OwnOptions, check_options, is_current
from recordzoo.preparing import ensure, is_record_set
from recordzoo.recipes.imports.recipe import ImportRecipe
from recordzoo.recipes.imports.source import identity, layout
from recordzoo.records.reader import RecordReader


def import_records(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    format: Literal["folder2lmdb", "torchrecord", "caffe"] | None = None,
    **options: Unpack[OwnOptions],
) -> Path:
    """Store what an earlier tool left in LMDB databases as a record set, in its order; `ImageFolderRecord` opens it.

    * folder2lmdb, and Tensorpack's ``LMDBSerializer``: pairs of an image's file and a label, with pickle, msgpack or
      ``pyarrow.serialize``, in the order of ``__keys__``.
    * TorchRecord: one file with the named databases ``db0``, ``db1``, ... (before its first release: a directory with a
      database in each of the directories ``db0``, ``db1``, ...): pixels, or an image's file, and a label.
    * Caffe: `Datum`s as ``convert_imageset`` writes them, encoded or not, or with floats.

    An image's file is stored untouched; pixels raw, uint8 ``[H, W, C]`` in RGB; floats raw, float32 ``[C, H, W]``. The
    label is the field "target". None of the tools stored the classes' names, so the record set has none.

    Nothing in a database is executed, imported or unpickled; LMDB itself does not open it, and nothing is written
    beside it. What cannot be read is an error that names database and key.

    The work is spread over processes, goes on where it was interrupted, and gives the same bytes each time. What is
    there already is left alone if it is of these databases.

    Args:
        path: An LMDB file, a directory with ``data.mdb``, or TorchRecord's directory of ``db0``, ``db1``, ...
        output: The record set's directory: ``my.records``.
        format: Tool that wrote the database; "folder2lmdb" for Tensorpack. Default: detected from the keys and the
            first value.
        **options: See `OwnOptions`.

    Returns:
        The record set's directory.

    Raises:
        NotPreparedError: There is no database.
        ArchiveError: A database is cut or damaged.
        SourceError: It is of no known layout, or a value of it is not what the tool writes.
        OtherSourceError: `output` holds something else.
        ArgumentError: `path` holds several databases, or an argument has no valid value.
        PrepareError: The disk is full, or a process was killed; what is finished is kept.

    Examples:
        >>> recordzoo.import_records("train.lmdb", "train.records")
        PosixPath('train.records')
    """
    check_options(options, "import_records()")
    databases = Path(path).expanduser().absolute()
    place = Path(output).expanduser().absolute()
    if format is not None:
        layout(format)
    if is_record_set(place) and is_current(options, lambda: _check_same(place, databases, format)):
        return place
    ensure(ImportRecipe(databases, place, format), place.parent, prepare=True, records_dir=place, **options)
    _check_same(place, databases, format)  # another process may have been faster, with other databases
    return place


def _check_same(place: Path, databases: Path, format: str | None) -> None:
    """Compare what is there with what is asked for.

    Raises:
        OtherSourceError: It is something else.
    """
    metadata = RecordReader(place).manifest.metadata
    if metadata.get("databases") != identity(databases) or format not in (None, metadata.get("layout")):
        raise OtherSourceError(
            f"{place} is there and holds other records than {databases}. Pass refresh=True (--refresh) to replace it, "
            "or another output.",
            path=str(place),
        )
