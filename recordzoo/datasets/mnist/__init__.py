"""EMNIST, Fashion-MNIST, Kuzushiji-MNIST, MNIST and QMNIST."""
