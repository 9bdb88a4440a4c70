"""Bytes from a URL: verified downloads, object storage, and the shard cache of this machine."""
