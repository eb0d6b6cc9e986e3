"""Writes what stands between gradients and weights: clipping, learning rates, optimizers, averages."""
