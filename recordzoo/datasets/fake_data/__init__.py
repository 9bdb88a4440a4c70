"""FakeData: images of random pixels, which are made and not read."""
