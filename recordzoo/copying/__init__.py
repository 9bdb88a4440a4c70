"""A record set → another place, which it leaves or reaches complete: `push` and `pull`."""
