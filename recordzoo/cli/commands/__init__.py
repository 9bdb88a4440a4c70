"""What each command takes. The functions that do the work are imported when a command runs: help must be quick."""
