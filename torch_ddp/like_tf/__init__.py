"""TensorFlow 1 rules that a PyTorch port needs, each proven against TensorFlow in float64."""
