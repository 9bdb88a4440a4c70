"""The documentation: pages, and the modules that make what is generated of them."""
