"""User data → record sets: any dataset, any stream of records, lists of files, other tools' databases."""
