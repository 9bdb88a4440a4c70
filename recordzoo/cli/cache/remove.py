"""Delete one thing that recordzoo wrote, so that a kill in the middle leaves nothing that looks whole."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from recordzoo import durable
from recordzoo.cli.cache.find import item_at
from recordzoo.cli.cache.item import Item, Kind
from recordzoo.errors import ArgumentError, RecordZooError
from recordzoo.preparing.build_lock import kept_from_others
from recordzoo.preparing.download_mark import remove_marked
from recordzoo.records.manifest import MANIFEST_NAME


def remove(item: Item) -> str:
    """Delete an item, if it is still what it was; return why it was left, "" if it is deleted.

    Of a record set the manifest is deleted first: what is left is no record set for anybody.
    """
    try:
        now = item_at(item.path)  # minutes may have passed at the question
        if now.kind != item.kind:
            return f"it is a {now.kind} now"
        if now.obstacle:
            return now.obstacle
        if now.kind in (Kind.SET, Kind.REMAINS):
            with kept_from_others(now.path) as is_free:
                if not is_free:
                    return "another process works on it"
                _remove_set(now.path)
        elif now.kind is Kind.BUILD:
            shutil.rmtree(now.path)
        elif now.kind is Kind.RAW:
            remove_marked(now.path)
        else:
            durable.remove(now.path)
        durable.sync_directory(now.path.parent)
    except ArgumentError:
        return "" if not os.path.lexists(item.path) else "it is not what it was"
    except OSError as err:
        return err.strerror or str(err)
    except RecordZooError as err:
        return str(err)
    return ""


def _remove_set(path: Path) -> None:
    """Delete a record set's files, its manifest first and its shards last, and then the directory."""
    for name in _in_order(os.listdir(path)):
        (path / name).unlink()
        if name == MANIFEST_NAME:
            durable.sync_directory(path)
    path.rmdir()


def _in_order(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != MANIFEST_NAME, name.startswith("shard-"), name))
