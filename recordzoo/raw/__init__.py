"""Raw data in: downloads, archives and trees become streams of members. Knows nothing of the record format."""
