"""Which raw files a recipe takes, when a dataset class names its own for all parts of the dataset."""

from recordzoo import catalogue
from recordzoo.errors import ArgumentError
from recordzoo.sources.download import RemoteFile


def files_of_part(dataset: str, part: str, raw_files: tuple[RemoteFile, ...] | None = None) -> tuple[RemoteFile, ...]:
    """Return a part's raw files: the catalogue's, or those among `raw_files` that have their names.

    Raises:
        ArgumentError: `raw_files` lacks one of them.
    """
    known = catalogue.entry(dataset).raw_files(part)
    if raw_files is None:
        return known
    given = {file.name: file for file in raw_files}
    if lacking := [file.name for file in known if file.name not in given]:
        raise ArgumentError(f"raw_files of {dataset} lacks {', '.join(lacking)}; it has {', '.join(given) or 'none'}.")
    return tuple(given[file.name] for file in known)
