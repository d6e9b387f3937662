"""Stands in for clu, which would import TensorFlow: Orbax's harness then starts as fast as it can."""
