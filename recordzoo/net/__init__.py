"""Bytes from URLs: verified downloads, object storage, and this machine's shard cache."""
