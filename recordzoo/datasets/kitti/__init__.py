"""KITTI, object detection."""
