"""Moving MNIST."""
