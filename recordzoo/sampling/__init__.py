"""In which order samples are taken: shuffled without a list, the same on every rank, resumed at any place."""
