"""The catalogue's datasets by name, from Python: list them, look one up. Imports no torch."""

from recordzoo import catalogue
from recordzoo.catalogue import Entry


def list_datasets() -> list[str]:
    """List the names of the datasets that recordzoo knows, sorted.

    Examples:
        >>> import recordzoo
        >>> recordzoo.list_datasets()
        ['cifar10', 'cub200', 'imagenet', 'voc']
    """
    return catalogue.names()


def info(name: str) -> Entry:
    """Return what is known of a dataset: title, licence, splits, raw files, record sets.

    Args:
        name: One of `list_datasets`.

    Raises:
        ArgumentError: There is no such dataset.

    Examples:
        >>> import recordzoo
        >>> cub200 = recordzoo.info("cub200")
        >>> {split.name: split.count for split in cub200.splits}
        {'train': 5994, 'test': 5794, 'all': 11788}
    """
    return catalogue.entry(name)
