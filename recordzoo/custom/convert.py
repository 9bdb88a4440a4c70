"""`convert`: any map-style dataset → a record set."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Unpack

import cloudpickle

from recordzoo.base.bars import default_progress
from recordzoo.custom.infer import infer
from recordzoo.custom.options import check_classes, options_to_make
from recordzoo.custom.plans import Kind, UnevenError
from recordzoo.custom.samples import MapStyle, Probe, SampleRecipe
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.preparing import Options, OwnOptions, ensure
from recordzoo.publish.exchange import check_place
from recordzoo.publish.output import ANOTHER_PATH
from recordzoo.records.reader import RecordReader


def convert(
    dataset: MapStyle,
    output: str | os.PathLike[str],
    *,
    fields: Sequence[str] | Mapping[str, str] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    classes: Sequence[str] | None = None,
    **options: Unpack[OwnOptions],
) -> Path:
    """Store every sample of a map-style dataset, in its order, as a record set; `ImageFolderRecord` opens it.

    A sample is a tuple (its items become the fields "image", "target", "field_2", ...), a dict (its keys are the
    fields' names) or one value ("image"). How a field is stored follows from 64 samples, looked at first:

    * ``bytes``: untouched; an encoded image costs nothing but the copy.
    * PIL images, and uint8 arrays ``[H, W]`` or ``[H, W, C]`` and tensors ``[C, H, W]`` with 1, 3 or 4 channels:
      losslessly, as PNG (TIFF for the modes that PNG has not), or as raw pixels if those take no more room, as small
      images of one size do.
    * Other arrays and tensors: raw, with dtype and shape; up to 1 KiB and of one shape, as rows of an array. All arrays
      of a field have one dtype and one number of dimensions.
    * Numbers: an array. A tuple of numbers and arrays: a field each (``target_0``, ``target_1``).
    * A dict with arrays, such as ``{"boxes": [N, 4], "labels": [N]}``: a field for each key (``boxes``, ``labels``).
    * Strings, lists and other dicts: JSON (arrays in it become lists).
    * None: no value, in any sample; only "image" must have one.

    The work is spread over processes, goes on where it was interrupted, and gives the same bytes each time. What is
    there already is left alone if it is of this dataset.

    Args:
        dataset: Has ``__len__`` and ``__getitem__``; must give the same sample each time it is asked for it, so leave
            random transforms out.
        output: The record set's directory: ``my.records``.
        fields: Names for the items of a tuple, or other names for the keys of a dict, instead of the ones above.
        kinds: How fields are stored, where it shall not be as above: "image", "bytes", "picture" (PNG), "pixels" (raw
            pixels), "raw", "array" or "json", by field.
        classes: Class names by label; by default those of ``dataset.classes``.
        **options: See `OwnOptions`.

    Returns:
        The record set's directory.

    Raises:
        SampleError: A sample cannot be stored, its label has none of the names in `classes`, or the dataset raised an
            `OSError`; ``position`` is its place. Anything else that the dataset raises goes through, with a note.
        ArgumentError: It is no dataset that has a length, or gives another sample each time.
        OtherSourceError: `output` holds something else.
        PrepareError: The disk is full, or a process was killed; what is finished is kept.

    Examples:
        >>> recordzoo.convert(dataset, "my.records")
        PosixPath('my.records')
        >>> dataset = recordzoo.ImageFolderRecord("my.records")
    """
    place = Path(output).expanduser().absolute()
    wanted = Options.of(options, "convert()", OwnOptions)
    check_classes(classes)
    check_place(place, ANOTHER_PATH)
    _check_dataset(dataset)
    probe = Probe(dataset)
    kinds = kinds or {}
    schema = infer(probe.samples, fields, kinds)
    probe.check_repeats(dataset)
    recipe = SampleRecipe(dataset, b"", schema, probe, kinds, classes, place)
    to_make = options_to_make(place, wanted, lambda: _check_same(place, recipe))
    if to_make is None:
        return place
    if not wanted.layout:
        # Smaller than for files: making a sample may be slow, and each process fills shards of its own.
        shard_bytes = max(4 << 20, min(1 << 30, recipe.source(probe).size_bytes // 8))
        to_make = dataclasses.replace(to_make, shard_bytes=shard_bytes)
    progress = wanted.progress or default_progress()
    payload = _payload(dataset)
    if isinstance(payload, str):
        if wanted.executor is None:
            progress.note(f"{type(dataset).__name__} cannot be sent to other processes ({payload}): one does it all.")
            to_make = dataclasses.replace(to_make, workers=1)
        elif not isinstance(wanted.executor, ThreadPoolExecutor):
            raise ArgumentError(
                f"{type(dataset).__name__} cannot be sent to the executor's processes ({payload}). Convert without "
                "executor, or with a ThreadPoolExecutor."
            )
        payload = b""
    recipe.payload = payload
    while True:
        try:
            ensure(recipe, place.parent, to_make)
        except UnevenError as err:
            if err.details["field"] in kinds:
                raise
            schema = schema.widened(err)
            recipe = SampleRecipe(dataset, payload, schema, probe, kinds, classes, place)
            progress.note(f"{err} It is stored as {err.details['plans'][0].kind}; beginning again.")
        else:
            _check_same(place, recipe)  # another process may have published another dataset's set meanwhile
            return place


# Any: the user may pass anything.
def _check_dataset(dataset: Any) -> None:
    """Raise unless it is a map-style dataset with at least one sample."""
    name = type(dataset).__name__
    if isinstance(dataset, os.PathLike | str | bytes):
        raise ArgumentError(
            f"{dataset!r}: a {name} is no dataset. Files in a folder for each class become records by "
            "ImageFolderRecord(path), files of a list by prepare(path)."
        )
    if isinstance(dataset, type):
        raise ArgumentError(f"{dataset.__name__} is a class; pass an object of it, {dataset.__name__}(...).")
    if isinstance(dataset, Mapping):
        keys = [repr(key) for key in dataset]
        raise ArgumentError(
            f"A {name} of {', '.join(keys[:10]) or 'nothing'} is no dataset"
            + (f"; pass one of its values, such as dataset[{keys[0]}]." if keys else ".")
        )
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise ArgumentError(f"{name} is not map-style: it needs __len__ and __getitem__.")
    if len(dataset) == 0:
        raise ArgumentError(f"{name} is empty; there is nothing to convert.")


def _payload(dataset: MapStyle) -> bytes | str:
    """Pickle a dataset, including its lambdas, for worker processes; or return the reason why it cannot be pickled."""
    try:
        return bytes(cloudpickle.dumps(dataset))
    except Exception as err:  # noqa: BLE001 - a dataset may hold anything, and pickling it raise anything
        return f"{type(err).__name__}: {err}"


def _check_same(place: Path, recipe: SampleRecipe) -> None:
    """Raise if a record set holds other samples, or has other names, kinds or classes."""
    manifest = RecordReader(place).manifest
    held = manifest.metadata
    sample = held.get("sample")
    names = sample.get("fields") if isinstance(sample, dict) else None
    if held.get("samples") != recipe.metadata["samples"]:
        problem = f"other records than this {recipe.metadata['origin']}"
    elif (names, held.get("kinds")) != (list(recipe.schema.names), recipe.metadata["kinds"]):
        problem = f"these samples with other fields or kinds: {names}"
    elif (manifest.classes or manifest.object_classes) != recipe.classes:
        problem = "these samples with other classes"
    else:
        return
    raise OtherSourceError(
        f"{place} is there and holds {problem}. Pass refresh=True to replace it, or another output.", path=str(place)
    )
