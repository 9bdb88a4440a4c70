"""`facts.json`: all raw files with their addresses, for the site; and which addresses such a file may change here."""

import json

from recordzoo import catalogue
from recordzoo.base.addresses import public_url
from recordzoo.base.types import JSON
from recordzoo.catalogue.facts import Entry, FileFacts
from recordzoo.errors import ArgumentError

SCHEMA_VERSION = 1

Addresses = dict[tuple[str, str], tuple[str, ...]]
"""Addresses by dataset and file."""


def document() -> dict[str, JSON]:
    """Return what this release knows: name, addresses, size and hashes of the raw files of each dataset."""
    entries = map(catalogue.entry, catalogue.names())
    return {
        "schema_version": SCHEMA_VERSION,
        "datasets": {entry.name: {file.name: _facts(file) for file in entry.files} for entry in entries},
    }


def new_addresses(data: bytes) -> Addresses:
    """Read a `facts.json` that may lack datasets and files, and change nothing but addresses.

    Returns:
        The addresses of its files, in the order of trying.

    Raises:
        ArgumentError: It says anything that this release does not know, or has an address that is not accepted: neither
            https nor this release's, with a login, or of a file without a confirmed hash. The text is a clause.
    """
    try:
        read = json.loads(data)
    except (ValueError, RecursionError) as err:
        raise ArgumentError(f"it is not JSON ({err})") from err
    read = _with_keys("it", read, ["schema_version", "datasets"])
    if read["schema_version"] != SCHEMA_VERSION:
        raise ArgumentError(f"its schema_version is {read['schema_version']!r}, not {SCHEMA_VERSION}")
    if not isinstance(read["datasets"], dict):
        raise ArgumentError("its datasets are no JSON object")
    found: Addresses = {}
    for name, files in read["datasets"].items():
        if name not in catalogue.names():
            raise ArgumentError(f"it has the dataset {name!r}, which this release does not know")
        found.update(_of_dataset(catalogue.entry(name), files))
    return found


def _of_dataset(entry: Entry, files: object) -> Addresses:
    known = {file.name: file for file in entry.files}
    if not isinstance(files, dict) or not known.keys() >= files.keys():
        raise ArgumentError(f"it has files of {entry.name} that this release does not know")
    return {(entry.name, name): _of_file(f"{name} of {entry.name}", known[name], said) for name, said in files.items()}


def _of_file(where: str, file: FileFacts, found: object) -> tuple[str, ...]:
    expected = _facts(file)
    said = _with_keys(f"its entry for {where}", found, list(expected))
    for key, value in expected.items():
        if key != "urls" and said[key] != value:
            raise ArgumentError(f"its {key} of {where} is {said[key]!r}, not {value!r}")
    urls = said["urls"]
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        raise ArgumentError(f"its addresses of {where} are no list of strings")
    for url in urls:
        if url not in file.urls and not _is_acceptable(url):
            raise ArgumentError(f"its address {public_url(url)!r} of {where} is not a plain https address")
    if tuple(urls) != file.urls and not (file.sha256 or (file.md5 and not file.unconfirmed)):
        raise ArgumentError(f"it changes the addresses of {where}, of which no confirmed hash is known")
    return tuple(urls)


def _is_acceptable(url: str) -> bool:
    return url.startswith("https://") and url.isprintable() and " " not in url and public_url(url) == url


def _with_keys(where: str, found: object, keys: list[str]) -> dict[str, object]:
    if not isinstance(found, dict) or set(found) != set(keys):
        raise ArgumentError(f"{where} must have the keys {', '.join(keys)} and no others")
    return found


def _facts(file: FileFacts) -> dict[str, JSON]:
    return {"urls": list(file.urls), "size_bytes": file.size_bytes, "md5": file.md5, "sha256": file.sha256}
