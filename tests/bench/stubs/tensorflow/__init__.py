"""Stands in for TensorFlow, of which nothing is called where clu is stubbed."""
