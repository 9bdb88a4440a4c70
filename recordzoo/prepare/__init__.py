"""Sources → records: the one place that says the whole sentence.

Find raw data, check space, convert, read back, publish. `docs/architecture.md` has the states and what a crash leaves.
"""

from recordzoo.prepare.describe import describe
from recordzoo.prepare.job import ensure
from recordzoo.prepare.options import PrepareOptions
from recordzoo.records.reader import is_record_set

__all__ = ["PrepareOptions", "describe", "ensure", "is_record_set"]
