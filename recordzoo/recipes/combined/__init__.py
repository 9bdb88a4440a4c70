"""Records of one or several record sets, all or some of them → a new one; values are copied as they are stored."""
