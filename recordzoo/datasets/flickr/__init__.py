"""Flickr8k and Flickr30k."""
