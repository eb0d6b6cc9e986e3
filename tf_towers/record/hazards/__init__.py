"""What a port has to know of a recorded script."""
