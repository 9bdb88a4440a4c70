"""Record sets → a new one: `merge`, `append`, `subset`, and `subset` of an open dataset, without copying."""
