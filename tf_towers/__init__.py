"""TensorFlow 1 towers: one model, many devices, one update."""
