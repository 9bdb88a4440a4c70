"""Members become records."""
