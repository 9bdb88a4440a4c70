"""torchvision's surface over record sets, by family of datasets."""
