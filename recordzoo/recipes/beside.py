"""The files beside a manifest that tell the source of a record set. They are not part of the format."""

from recordzoo.recipes.combined.recipe import COMBINED_FILE
from recordzoo.recipes.folder import TREE_FILE
from recordzoo.recipes.listing import LIST_FILE
from recordzoo.records.made_from import MADE_FROM_FILE

LAYOUT_FILE = "layout.json"
"""``shard_bytes`` or ``num_shards`` of the preparation, if one was given."""

COPIED_FILE = "copied.json"
"""The path or URL, without a login, from which a record set was copied or pulled, and its digest."""

BESIDE = (TREE_FILE, LIST_FILE, MADE_FROM_FILE, COMBINED_FILE, LAYOUT_FILE, COPIED_FILE)
