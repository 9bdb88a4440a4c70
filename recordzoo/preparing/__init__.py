"""Sources → records: the one place that says the whole sentence.

Find raw data, check space, convert, read back, publish. `docs/decisions/preparing.md` has the
states, and what a crash leaves.
"""

from recordzoo.preparing.job import ensure, ensure_located
from recordzoo.preparing.located import Located, locate
from recordzoo.preparing.options import NewOptions, Options, OwnOptions, PrepareOptions
from recordzoo.preparing.outlook import describe
from recordzoo.records.reader import is_record_set

__all__ = [
    "Located",
    "NewOptions",
    "Options",
    "OwnOptions",
    "PrepareOptions",
    "describe",
    "ensure",
    "ensure_located",
    "is_record_set",
    "locate",
]
