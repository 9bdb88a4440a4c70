"""`recordzoo doctor`: what is installed, what the machine and the disk are like, and what would help."""
