"""A damaged record set → the same bytes as before: what is damaged is made again, all else is kept."""

from recordzoo.repairing.job import Repaired, repair

__all__ = ["Repaired", "repair"]
