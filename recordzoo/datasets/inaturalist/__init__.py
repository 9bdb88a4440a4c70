"""iNaturalist."""
