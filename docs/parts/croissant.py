"""Croissant 1.1, MLCommons' metadata of datasets in JSON-LD: the document of a dataset.

The specification: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html. It has no words for what a recipe
does with an archive: files, splits and classes are described, records are not.
"""

import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence

from recordzoo.base.text import JSON, public_url
from recordzoo.catalogue import Entry, FileFacts

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

_ENCODINGS = {
    "bz2": "application/x-bzip2",
    "csv": "text/csv",
    "data": "text/plain",
    "gz": "application/gzip",
    "hdf5": "application/x-hdf5",
    "json": "application/json",
    "mat": "application/x-matlab-data",
    # A format without a media type is named by a page that describes it.
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
    lists = [each for each in (_splits(entry), _classes(entry)) if each is not None]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": entry.title,
        "description": entry.summary,
        **_terms(entry),
        **{key: found for key, found in files.items() if found},
        **({"recordSet": lists} if lists else {}),
    }


def dumps(document: Mapping[str, JSON]) -> str:
    """Encode a document as ASCII that can stand in a ``<script>`` of a page: it has no "<"."""
    return json.dumps(document, indent=1).replace("<", "\\u003c")


def _splits(entry: Entry) -> dict[str, JSON] | None:
    """List the splits of all parts, and their numbers of samples; None if there are none."""
    if not entry.splits:
        return None
    key = ["part", "name"] if len(entry.parts) > 1 else ["name"]  # parts may have splits of the same name
    return _list(
        "splits",
        "The splits, and how many samples each has.",
        "cr:Split",
        {**dict.fromkeys(key, "sc:Text"), "url": "sc:URL", "count": "sc:Integer"},
        key,
        [
            {"part": entry.set_name(each.part), "name": each.name, "url": _SPLITS.get(each.name), "count": each.count}
            for each in entry.splits
        ],
    )


def _classes(entry: Entry) -> dict[str, JSON] | None:
    """List the names of classes by their numbers; None if they are not known."""
    if not entry.classes:
        return None
    return _list(
        "classes",
        "The classes, in the order of their numbers.",
        "sc:Enumeration",
        {"number": "sc:Integer", "name": "sc:Text"},
        ["number"],
        [{"number": number, "name": name} for number, name in enumerate(entry.classes)],
    )


def _list(
    id: str,
    description: str,
    data_type: str,
    types: Mapping[str, str],
    key: Sequence[str],
    rows: Iterable[Mapping[str, JSON]],
) -> dict[str, JSON]:
    """Describe a list: a record set in Croissant's sense."""
    fields: list[JSON] = [
        {"@type": "cr:Field", "@id": f"{id}/{name}", "name": name, "dataType": each} for name, each in types.items()
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": id,
        "name": id,
        "description": description,
        "field": fields,
        "dataType": data_type,
        "key": [{"@id": f"{id}/{name}"} for name in key],
        "data": [{f"{id}/{name}": row[name] for name in types} for row in rows],
    }


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
    return _known(
        {
            "@type": "cr:FileObject",
            "@id": urllib.parse.quote(file.name),
            "name": file.name,
            "description": " ".join(text for text, is_so in said.items() if is_so),
            "contentUrl": public_url(file.urls[0]) if file.urls else None,
            "contentSize": None if file.size_bytes is None else f"{file.size_bytes} B",
            "encodingFormat": _ENCODINGS.get(file.name.rpartition(".")[2], "application/octet-stream"),
            "sha256": file.sha256,
            "md5": None if file.sha256 and file.unconfirmed else file.md5,
        }
    )


def _known(found: dict[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in found.items() if value not in (None, "")}
