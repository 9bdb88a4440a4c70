"""The record format on disk: manifest, shards, arrays; read, written, verified."""
