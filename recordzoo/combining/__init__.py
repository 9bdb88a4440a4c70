"""Record sets → a new one: `merge`, `append`, `split`, `subset`, and `subset` of an open dataset, without copying."""
