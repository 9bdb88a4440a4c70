"""CelebA."""
