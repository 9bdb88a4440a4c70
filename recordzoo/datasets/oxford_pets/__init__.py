"""Oxford-IIIT Pet."""
