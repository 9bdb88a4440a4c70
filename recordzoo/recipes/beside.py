"""The files beside a manifest that say where a record set's raw data is. They are not a part of the format."""

from recordzoo.recipes.combined.recipe import COMBINED_FILE
from recordzoo.recipes.folder import TREE_FILE
from recordzoo.recipes.listing import LIST_FILE
from recordzoo.records.made_from import MADE_FROM_FILE

BESIDE = (TREE_FILE, LIST_FILE, MADE_FROM_FILE, COMBINED_FILE)
