"""NABirds."""
