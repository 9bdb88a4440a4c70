"""Files at URLs, through fsspec: addresses, file systems, and the node's cache. Knows no record format."""
