"""Records of existing record sets in the place of raw data: variants, and sets that are combined or chosen from."""
