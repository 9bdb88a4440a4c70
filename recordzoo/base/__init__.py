"""What every module may use: files, processes, settings, text, progress."""
