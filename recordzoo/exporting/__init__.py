"""A record set → files that other programs read: a folder, WebDataset, TFRecord, parquet, a zip."""
