"""How fast a person's own data becomes batches: measured, compared, drawn."""
