"""Stanford Dogs."""
