"""LMDB databases of earlier tools → record sets: what each tool stored, read without running any of it."""
