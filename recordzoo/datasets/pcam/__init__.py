"""PatchCamelyon."""
