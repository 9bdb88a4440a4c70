"""Export a record set to files that other programs read: a folder, WebDataset, TFRecord, parquet, a zip."""
