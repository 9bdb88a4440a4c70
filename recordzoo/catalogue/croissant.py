"""Croissant 1.1, MLCommons' metadata of datasets in JSON-LD: the document of a dataset, and the parts of all documents.

The specification: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html. It has no words for what a recipe
does with an archive, or for a shard. So fields are described, but have no source that a program could read.
"""

import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence

from recordzoo.base.addresses import public_url
from recordzoo.base.types import JSON
from recordzoo.catalogue.facts import Entry, FileFacts

_TERMS = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform"
)
# That of mlcroissant, which reads terms of schema.org only with https; the specification has http.
CONTEXT: dict[str, JSON] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}

ENCODINGS = {
    "bz2": "application/x-bzip2",
    "csv": "text/csv",
    "data": "text/plain",
    "gz": "application/gzip",
    "hdf5": "application/x-hdf5",
    "json": "application/json",
    # Formats without a media type are named by a page that describes them.
    "lmdb": "http://www.lmdb.tech/doc/",
    "mat": "application/x-matlab-data",
    "npy": "https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html",
    "npz": "application/zip",
    "tar": "application/x-tar",
    "tgz": "application/gzip",
    "txt": "text/plain",
    "xz": "application/x-xz",
    "zip": "application/zip",
}
_SPLITS = {
    "train": "cr:TrainingSplit",
    "val": "cr:ValidationSplit",
    "valid": "cr:ValidationSplit",
    "test": "cr:TestSplit",
}
_SPDX = re.compile(r"MIT|Apache-2\.0|CC0-1\.0|CC-BY(-NC)?(-ND|-SA)?-[34]\.0")


def document(entry: Entry) -> dict[str, JSON]:
    """Describe a dataset: what to cite, its license, raw files, splits and class names.

    `associatedMedia` has the files that are fetched by hand: a file in `distribution` must have an address.
    """
    files: dict[str, list[JSON]] = {"distribution": [], "associatedMedia": []}
    for file in entry.files:
        files["distribution" if file.urls else "associatedMedia"].append(_raw_file(file))
    return {
        **head(entry.title, entry.summary, entry),
        **{key: found for key, found in files.items() if found},
        **record_sets(_splits(entry), classes("classes", entry.classes) if entry.classes else None),
    }


def head(name: str, description: str, entry: Entry | None) -> dict[str, JSON]:
    """Begin a document; `entry` is the dataset that it describes, if it is of the zoo."""
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": name,
        "description": description,
        **({} if entry is None else _terms(entry)),
    }


def dumps(document: Mapping[str, JSON]) -> str:
    """Encode a document as ASCII that can stand in a ``<script>`` of a page: it has no "<"."""
    return json.dumps(document, indent=1).replace("<", "\\u003c")


def file_object(
    name: str, url: str | None, size_bytes: int | None, hashes: Mapping[str, str | None], description: str = ""
) -> dict[str, JSON]:
    """Describe a file; `hashes` has hexadecimal digits by "sha256" and "md5"."""
    return _known(
        {
            "@type": "cr:FileObject",
            "@id": urllib.parse.quote(name),
            "name": name,
            "description": description,
            "contentUrl": url,
            "contentSize": None if size_bytes is None else f"{size_bytes} B",
            "encodingFormat": ENCODINGS.get(name.rpartition(".")[2], "application/octet-stream"),
            **hashes,
        }
    )


def field(id: str, data_type: str | Sequence[str], description: str = "", **more: JSON) -> dict[str, JSON]:
    """Describe a field of a record set; `id` is "<record set>/<name>"."""
    name = id.partition("/")[2]
    return _known(
        {"@type": "cr:Field", "@id": id, "name": name, "description": description, "dataType": data_type, **more}
    )


def record_set(id: str, description: str, fields: Sequence[JSON], **more: JSON) -> dict[str, JSON]:
    """Describe records of one form, in Croissant's sense: splits and classes are such sets, too."""
    return {"@type": "cr:RecordSet", "@id": id, "name": id, "description": description, "field": fields, **more}


def record_sets(*found: JSON) -> dict[str, JSON]:
    """Return the key of a document that has its record sets; nothing if all are None."""
    return {"recordSet": known} if (known := [each for each in found if each is not None]) else {}


def classes(id: str, names: Iterable[str]) -> dict[str, JSON]:
    """List the names of classes by their numbers."""
    return _enumeration(
        id,
        "The classes, in the order of their numbers.",
        "sc:Enumeration",
        {"number": "sc:Integer", "name": "sc:Text"},
        ["number"],
        [{"number": number, "name": valid_text(name)} for number, name in enumerate(names)],
    )


def splits(rows: Sequence[Mapping[str, JSON]], key: Sequence[str] = ("name",)) -> dict[str, JSON] | None:
    """List splits and their numbers of samples; None if there are none.

    Args:
        rows: For each split "name", "count" and the other texts that `key` names.
        key: The texts that identify a split.
    """
    if not rows:
        return None
    return _enumeration(
        "splits",
        "The splits, and how many samples each has.",
        "cr:Split",
        {**dict.fromkeys(key, "sc:Text"), "url": "sc:URL", "count": "sc:Integer"},
        key,
        [{**row, "url": _SPLITS.get(row["name"])} for row in rows],
    )


def _enumeration(
    id: str,
    description: str,
    data_type: str,
    types: Mapping[str, str],
    key: Sequence[str],
    rows: Iterable[Mapping[str, JSON]],
) -> dict[str, JSON]:
    return record_set(
        id,
        description,
        [field(f"{id}/{name}", each) for name, each in types.items()],
        dataType=data_type,
        key=[{"@id": f"{id}/{name}"} for name in key],
        data=[{f"{id}/{name}": row[name] for name in types} for row in rows],
    )


def _terms(entry: Entry) -> dict[str, JSON]:
    """The homepage, keywords, citation and license. A text that says that there is no license is not one."""
    spdx = entry.license.replace(" ", "-")
    terms = {
        "@type": "sc:CreativeWork",
        "name": entry.license,
        "description": f"Source: {entry.license_source}" if entry.license_source else "",
        "url": f"https://spdx.org/licenses/{spdx}.html" if _SPDX.fullmatch(spdx) else None,
    }
    return {
        "url": entry.homepage,
        "keywords": entry.task.split(", "),
        "citeAs": entry.citation,
        "usageInfo" if entry.license.startswith("Not stated") else "license": _known(terms),
    }


def _raw_file(file: FileFacts) -> dict[str, JSON]:
    said = {
        "It must be fetched by hand.": not file.urls,
        "Accept the terms of access of its host first.": file.needs_terms,
        "The MD5 is not confirmed.": file.unconfirmed and not file.sha256,
    }
    hashes = {"sha256": file.sha256, "md5": None if file.sha256 and file.unconfirmed else file.md5}
    url = public_url(file.urls[0]) if file.urls else None
    return file_object(file.name, url, file.size_bytes, hashes, " ".join(text for text, is_so in said.items() if is_so))


def _splits(entry: Entry) -> dict[str, JSON] | None:
    """List the splits of all parts, which may have splits of the same name."""
    rows = [{"part": entry.set_name(each.part), "name": each.name, "count": each.count} for each in entry.splits]
    return splits(rows, ("part", "name") if len(entry.parts) > 1 else ("name",))


def _known(found: dict[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in found.items() if value not in (None, "")}


def valid_text(text: str) -> str:
    """Escape lone surrogates, which stand for bytes that are not UTF-8: JSON-LD has only characters."""
    return text.encode("utf-8", "backslashreplace").decode()
