"""Read raw data: downloads, archives and trees as streams of members. Independent of the record format."""
