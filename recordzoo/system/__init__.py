"""What differs between Linux, macOS and Windows. No other module asks on which of them it runs."""
