"""`import_records`: what another tool stored → a record set."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, Unpack

from recordzoo.addresses import public_text
from recordzoo.bars import default_progress
from recordzoo.custom.foreign import ForeignRecipe, schema_of
from recordzoo.custom.options import OwnOptions, check_options, check_place, is_current
from recordzoo.custom.schema import Kind, UnevenError
from recordzoo.errors import ArgumentError, NotPreparedError, OtherSourceError
from recordzoo.formats import FORMATS
from recordzoo.formats.base import Foreign, classes_beside
from recordzoo.formats.find import find_foreign
from recordzoo.meant import did_you_mean
from recordzoo.preparing import ensure, is_record_set
from recordzoo.program import command
from recordzoo.recipes.imports import LAYOUTS
from recordzoo.recipes.imports.places import database_files, may_be_database
from recordzoo.recipes.imports.recipe import ImportRecipe
from recordzoo.recipes.imports.source import identity
from recordzoo.records.reader import RecordReader


def import_records(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    **options: Unpack[OwnOptions],
) -> Path:
    """Store what another tool stored as a record set, in its order; `ImageFolderRecord` opens it.

    * TFRecord: files of ``tf.train.Example``; ``image/encoded`` or ``image`` becomes "image", ``image/class/label`` or
      ``label`` "target", every other key a field of its own.
    * Hugging Face datasets: Parquet files, folders of ``save_to_disk``, ``hf://datasets/user/name``; the first
      ``Image`` becomes "image", the first ``ClassLabel`` "target", every other column a field of its own.
    * SQLite: the rows of a table, by rowid; ``photos.db/table`` names the table. MongoDB: the documents of a collection
      or the files of GridFS, at ``mongodb://host/database/collection``. One big file (``photos.bin``) with an index of
      offset, length and label beside it (``photos.csv``, ``.tsv``, ``.jsonl``, ``.npy``, ...).
    * WebDataset: tar shards; ``jpg`` or another image becomes "image", ``cls`` "target", every other extension a field
      of its own. The path may have braces: ``train-{000000..000012}.tar``.
    * A zip of class folders, in the order of `ImageFolder`; with splits, if its folders are called as splits.
    * HDF5 and NumPy (``.npz``, ``.npy``): arrays called ``images`` or ``x``, ``labels`` or ``y`` and the like. Others
      of their length are fields; ``train_images`` or groups are splits.
    * folder2lmdb, and Tensorpack's ``LMDBSerializer``: pairs of an image's file and a label, with pickle, msgpack or
      ``pyarrow.serialize``, in the order of ``__keys__``.
    * TorchRecord: one file with the named databases ``db0``, ``db1``, ... (before its first release: a directory with a
      database in each of the directories ``db0``, ``db1``, ...): pixels, or an image's file, and a label.
    * Caffe: `Datum`s as ``convert_imageset`` writes them, encoded or not, or with floats.
    * Other LMDB databases: pickled NumPy arrays or batches of them; pickled objects of a class such as ``CIFAR_Image``;
      text recognition's (``image-000000001``, ``label-000000001``), whose label is a text; images under their names, as
      BasicSR writes them.

    An image's file is stored untouched. Of LMDB databases, pixels are stored raw, uint8 ``[H, W, C]`` in RGB; other
    numbers raw, as they are. The label is the field "target"; without labels it is -1. Classes' names are kept where
    the tool stores them.

    Nothing that is read is executed, imported or unpickled, and nothing is written beside it. What cannot be read is
    an error that says where it is.

    The work is spread over processes, goes on where it was interrupted, and gives the same bytes each time. An existing
    record set stays as it is if it was imported from the same data.

    Args:
        path: A file or a directory: an LMDB file, a directory with ``data.mdb``, TorchRecord's directory of ``db0``,
            ``db1``, ..., a directory of files of TFRecord or Parquet, of tar shards or of ``.npy`` files, a ``.npz`` or
            HDF5 file, a zip, an address of the Hugging Face Hub.
        output: The record set's directory: ``my.records``.
        format: What it is; "folder2lmdb" for Tensorpack. Default: detected from names and first bytes.
        fields: What keys are called as fields, by key: ``{"jpeg": "image", "class_id": "target"}``. Not for LMDB.
        kinds: How fields are stored, as `convert` has it. Not for LMDB.
        **options: See `OwnOptions`.

    Returns:
        The record set's directory.

    Raises:
        NotPreparedError: There is nothing of a known format.
        ArchiveError: A database is cut or damaged.
        SourceError: It is of no known layout, is damaged, or a value of it is not what the tool writes.
        SampleError: A sample cannot be stored.
        OtherSourceError: `output` holds something else.
        ArgumentError: `path` holds several databases, or an argument has no valid value.
        PrepareError: The disk is full, a process was killed, or a package that reads the format is missing; what is
            finished is kept.

    Examples:
        >>> recordzoo.import_records("train.lmdb", "train.records")
        PosixPath('train.records')
    """
    check_options(options, "import_records()")
    place = Path(output).expanduser().absolute()
    location = _location(path)
    if format is not None and format not in (*LAYOUTS, *FORMATS):
        hint = did_you_mean(str(format), (*LAYOUTS, *FORMATS))
        valid = (*LAYOUTS, *FORMATS)
        raise ArgumentError(f"Unknown value {format!r} for argument format. Valid values are {valid}.{hint}")
    foreign = None if format in LAYOUTS else find_foreign(location, format, fields or {})
    if foreign is not None:
        return _import_foreign(foreign, place, kinds or {}, options)
    if "://" in location:
        raise ArgumentError(
            f"Nothing is imported from {public_text(location).partition('?')[0]}; addresses are "
            "hf://datasets/user/name and mongodb://host/database/collection. Copy other data to this machine first; "
            "of a record set, `recordzoo pull` does it."
        )
    if fields or kinds:
        raise ArgumentError("Arguments fields and kinds are not for LMDB databases, whose fields are image and target.")
    databases = Path(location)
    if format is None:
        _check_known(databases)
    if is_record_set(place) and is_current(options, lambda: _check_same(place, databases, format)):
        return place
    ensure(ImportRecipe(databases, place, format), place.parent, prepare=True, records_dir=place, **options)
    _check_same(place, databases, format)  # another process may have been faster, with other databases
    return place


def _check_known(path: Path) -> None:
    """Refuse what is no LMDB database, and so of no known format.

    Raises:
        NotPreparedError: It is none, or is not there.
    """
    try:
        database_files(path)
        reason = f"{path} is of no known format."
        is_known = not path.is_file() or may_be_database(path)
    except NotPreparedError as err:
        if not path.exists():
            raise NotPreparedError(f"There is nothing at {path}.", path=str(path)) from None
        reason, is_known = f"{err} It is of no other known format either.", False
    if not is_known:
        advice = f" A folder of images is prepared: {command('prepare', path)}" if path.is_dir() else ""
        raise NotPreparedError(f"{reason} Formats: {', '.join((*LAYOUTS, *FORMATS))}.{advice}", path=str(path))


def _location(path: str | os.PathLike[str]) -> str:
    """Return an address as it is, and a path as an absolute one."""
    text = os.fspath(path)
    return text if "://" in text else str(Path(text).expanduser().absolute())


def _import_foreign(foreign: Foreign, place: Path, kinds: Mapping[str, Kind], options: OwnOptions) -> Path:
    check_place(place)
    if is_record_set(place) and is_current(options, lambda: _check_foreign(place, foreign)):
        return place
    foreign.open()
    if foreign.classes is None:
        foreign.classes = classes_beside(foreign.location)
    schema = schema_of(foreign, kinds)
    progress = options.get("progress") or default_progress()
    while True:
        try:
            ensure(ForeignRecipe(foreign, schema, place), place.parent, prepare=True, records_dir=place, **options)
        except UnevenError as err:
            if err.details["field"] in kinds:
                raise
            schema = schema.widened(err.details["field"], err.details["kind"])
            progress.note(f"{err} It is stored as {err.details['kind']}; beginning again.")
        else:
            _check_foreign(place, foreign)  # another process may have been faster, with something else
            return place


def _check_foreign(place: Path, foreign: Foreign) -> None:
    """Compare what is there with what is asked for.

    Raises:
        OtherSourceError: It is something else.
    """
    held = RecordReader(place).manifest.metadata
    if held.get("identity") != foreign.identity():
        _refuse(place, f"other records than {foreign.location}")
    if held.get("named") != foreign.fields:
        _refuse(place, f"the same samples with other fields: {held.get('named') or 'the default ones'}")


def _check_same(place: Path, databases: Path, format: str | None) -> None:
    """Compare what is there with what is asked for.

    Raises:
        OtherSourceError: It is something else.
    """
    metadata = RecordReader(place).manifest.metadata
    if metadata.get("databases") != identity(databases) or format not in (None, metadata.get("layout")):
        _refuse(place, f"other records than {databases}")


def _refuse(place: Path, what: str) -> NoReturn:
    raise OtherSourceError(
        f"{place} is there and holds {what}. Pass refresh=True (--refresh) to replace it, or another output.",
        path=str(place),
    )
