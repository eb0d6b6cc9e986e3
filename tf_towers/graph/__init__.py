"""Builds the graph of tower training."""
