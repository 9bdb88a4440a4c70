"""The on-disk format: manifest, shards, arrays. Knows nothing of datasets, sources or images."""
