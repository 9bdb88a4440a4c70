"""A record set as torchvision's class: one base class for each kind of dataset."""
