"""Writes a PyTorch port from the trace of a TensorFlow 1 script, and proves it."""
