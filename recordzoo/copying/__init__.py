"""Copy a record set to another place, where it appears complete: `copy`, `push` and `pull`."""
