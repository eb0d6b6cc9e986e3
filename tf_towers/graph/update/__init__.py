"""What becomes of the towers' gradients: combined, clipped, applied."""
