"""`Hub`: the files of a dataset on the Hugging Face Hub, downloaded into the cache of huggingface_hub."""

import glob
from collections.abc import Sequence
from pathlib import Path

from recordzoo.base.addresses import shown
from recordzoo.base.packages import need
from recordzoo.errors import ArgumentError, RemoteError
from recordzoo.net.failures import check_online
from recordzoo.net.hub import HubDataset, asking
from recordzoo.net.url import Url


def is_address(location: str) -> bool:
    """Whether a location is on the Hub."""
    return location.startswith("hf://")


class Hub:
    """A repository, or a folder or file of it, at the commit that its revision has now. Pickles.

    The files are downloaded before they are read: huggingface_hub resumes a download, checks its size, and shares the
    files with `datasets`. The token is its own: of ``HF_TOKEN`` or of ``hf auth login``.

    Args:
        location: ``hf://datasets/user/name``, with ``@revision`` behind it, and a path.
    """

    def __init__(self, location: str) -> None:
        found = HubDataset.find(location)
        if found is None:
            raise ArgumentError(
                f"{shown(location)} is no dataset of the Hub: hf://datasets/USER/NAME, and a path behind it."
            )
        need("huggingface_hub", "The Hugging Face Hub is read", "hf")
        self.url = Url.parse(location)
        self.repository, self.folder = found.repository, found.folder
        self.revision = "refs/convert/parquet" if found.revision == "~parquet" else found.revision or "main"

    def sizes(self) -> dict[str, int]:
        """Request the commit, and the size of each file below the address, by name."""
        check_online(self.url)
        import huggingface_hub

        with asking(self.url, "listed"):
            info = huggingface_hub.HfApi().dataset_info(self.repository, revision=self.revision, files_metadata=True)
        self.revision = info.sha or self.revision
        found = {each.rfilename: int(each.size or 0) for each in info.siblings or ()}
        if self.folder in found:  # one file
            folder, _, name = self.folder.rpartition("/")
            size = found[self.folder]
            self.folder = folder
            return {name: size}
        start = f"{self.folder}/" if self.folder else ""
        below = {name.removeprefix(start): size for name, size in found.items() if name.startswith(start)}
        if not any(name.endswith((".parquet", ".arrow")) for name in below):
            raise RemoteError(
                f"{self.url} has no files *.parquet or *.arrow. The Hub converts many datasets to Parquet: try "
                f"hf://datasets/{self.repository}@refs/convert/parquet",
                url=str(self.url),
                status=None,
            )
        return below

    def bring(self, names: Sequence[str]) -> Path:
        """Download files that are not in the cache, and return the cache's folder with them."""
        import huggingface_hub

        start = f"{self.folder}/" if self.folder else ""
        folders = {name.rpartition("/")[0] for name in names if name.endswith(".arrow")}
        infos = [f"{folder}/dataset_info.json".lstrip("/") for folder in sorted(folders)]
        patterns = [glob.escape(f"{start}{name}") for name in (*names, *infos)]
        with asking(self.url, "read"):
            place = huggingface_hub.snapshot_download(
                self.repository, repo_type="dataset", revision=self.revision, allow_patterns=patterns
            )
        return Path(place) / self.folder
