"""EuroSAT."""
