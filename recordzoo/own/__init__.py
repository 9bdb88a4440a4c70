"""A user's samples become records."""
