"""`recordzoo demo`: the whole way on generated pictures, offline. Its CUB-200-2011 is also the tests' fake."""
