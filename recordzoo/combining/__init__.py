"""Record sets → a new one: `merge` and `subset`; and `subset` of an open dataset, without copying."""
