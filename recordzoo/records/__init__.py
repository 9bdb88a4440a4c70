"""The on-disk format: manifest, shards, arrays. Independent of datasets, sources and images."""
