"""Test sets for models that were trained on ImageNet: ImageNetV2, ImageNet-A, -O, -R and -Sketch."""
