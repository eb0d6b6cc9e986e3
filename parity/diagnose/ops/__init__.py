"""Ops of graphs and functions of torch as functions of arrays, to compute parts of a recorded forward pass again."""
