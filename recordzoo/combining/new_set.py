"""What all new record sets share: a free directory, and what their manifest says of the sets that they are made of."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from recordzoo.base.types import JSON
from recordzoo.errors import ArgumentError, OtherSourceError
from recordzoo.net.url import Url, is_url
from recordzoo.publish.exchange import check_place
from recordzoo.publish.output import ANOTHER_PATH
from recordzoo.records.reader import RecordReader, is_record_set

_NOT_KEPT = {
    *("num_bad", "num_skipped", "empty_classes", "selection", "written", "made_of"),
    *("list", "identity", "named", "samples", "origin", "kinds"),
}
"""Metadata that says where records came from; a new set has its own."""


def new_place(output: str | os.PathLike[str], readers: Sequence[RecordReader]) -> Path:
    """Return the directory of a new set made of others.

    Raises:
        ArgumentError: It is a URL, or one of the sets.
        PrepareError: It is occupied by something else than a record set.
    """
    if is_url(output):
        raise ArgumentError(
            f"{Url.parse(output)} is a URL; the new record set is made on this machine. Push it afterwards."
        )
    place = Path(output).expanduser().absolute()
    for reader in readers:
        if isinstance(reader.path, Path) and place.exists() and place.samefile(reader.path):
            raise ArgumentError(f"The output {place} is one of the record sets that are read. Name another directory.")
    check_place(place, ANOTHER_PATH)
    return place


def is_made(place: Path, readers: Sequence[RecordReader], made_of: Mapping[str, JSON]) -> bool:
    """Whether the wanted set is there.

    Raises:
        OtherSourceError: Another record set is there.
    """
    if not is_record_set(place):
        return False
    if RecordReader(place).manifest.metadata.get("made_of") != made_of:
        sets = ", ".join(reader.path.name for reader in readers)
        raise OtherSourceError(
            f"{place} is there and was not made of these records of {sets}. Name another output, or delete it first.",
            path=str(place),
        )
    return True


def new_metadata(
    readers: Sequence[RecordReader], classes: Sequence[str] | None, made_of: Mapping[str, JSON], **written: JSON
) -> dict[str, JSON]:
    """Return the metadata of a new set: what is said of the records by all sets, and what it is made of.

    Args:
        written: The options of the shard layout.
    """
    manifests = [reader.manifest for reader in readers]
    dropped = _NOT_KEPT | ({"synonyms"} if any(manifest.classes != classes for manifest in manifests) else set())
    kept = {
        name: value
        for name, value in manifests[0].metadata.items()
        if name not in dropped and all(name in each.metadata and each.metadata[name] == value for each in manifests)
    }
    forms = [manifest.metadata["sample"] for manifest in manifests if "sample" in manifest.metadata]
    return {**kept, **({"sample": forms[0]} if forms else {}), "made_of": made_of, "written": written}


def said_of(reader: RecordReader, **more: JSON) -> dict[str, JSON]:
    """Return what the manifest of a new set says of one that it is made of."""
    return {"name": reader.path.name, "digest": reader.digest, "records": len(reader), **more}
