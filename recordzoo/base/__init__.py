"""What every room may use: settings, text, progress, writing that lasts, who owns a file."""
