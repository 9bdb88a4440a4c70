"""The files beside a manifest that say where a record set came from. They are not a part of the format."""

from recordzoo.recipes.combined.recipe import COMBINED_FILE
from recordzoo.recipes.folder import TREE_FILE
from recordzoo.recipes.listing import LIST_FILE
from recordzoo.records.made_from import MADE_FROM_FILE

LAYOUT_FILE = "layout.json"
"""``shard_bytes`` or ``num_shards``, if one was given when the set was prepared."""

COPIED_FILE = "copied.json"
"""The path or URL, without a login, from which this copy of a record set was copied or pulled; and its digest."""

BESIDE = (TREE_FILE, LIST_FILE, MADE_FROM_FILE, COMBINED_FILE, LAYOUT_FILE, COPIED_FILE)
