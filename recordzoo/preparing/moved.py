"""Raw files whose addresses changed since this release: `RECORDZOO_FACTS` names a file that has the new ones."""

import dataclasses
import functools
import threading
from collections.abc import Sequence

from recordzoo import catalogue
from recordzoo.base import settings
from recordzoo.base.addresses import Address
from recordzoo.catalogue.published import Addresses, new_addresses
from recordzoo.errors import DownloadError, RecordZooError
from recordzoo.net.download import RemoteFile
from recordzoo.net.small import fetch_small

MOST_BYTES = 4 << 20
TIME_S = 20.0

_fetching = threading.Lock()


def with_new_addresses(dataset: str, files: Sequence[RemoteFile]) -> list[RemoteFile]:
    """Return raw files that are about to be downloaded, with their new addresses, if there are any.

    The file at `RECORDZOO_FACTS` is fetched once per process; not at all without `files`, or offline. Files of other
    hashes than the catalogue's keep their addresses.

    Raises:
        DownloadError: The file cannot be fetched, or says anything else than new addresses.
    """
    url = settings.facts()
    if url is None or not files or settings.offline() or dataset not in catalogue.names():
        return list(files)
    with _fetching:
        new = _addresses(url)
    known = {file.name: file for file in catalogue.entry(dataset).files}
    return [
        dataclasses.replace(file, urls=new[dataset, file.name])
        if (dataset, file.name) in new and (file.sha256, file.md5) == (known[file.name].sha256, known[file.name].md5)
        else file
        for file in files
    ]


@functools.cache
def _addresses(url: str) -> Addresses:
    address = Address.parse(url)
    try:
        return new_addresses(fetch_small(address, most_bytes=MOST_BYTES, time_s=TIME_S))
    except RecordZooError as err:
        raise DownloadError(
            f"The facts at {address} (RECORDZOO_FACTS) are not used: {str(err).rstrip('.')}. Unset the variable to "
            "download from the addresses of this release."
        ) from err
