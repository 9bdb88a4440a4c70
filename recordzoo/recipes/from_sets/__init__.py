"""Records of existing record sets in the place of raw data: variants, and chosen records."""
