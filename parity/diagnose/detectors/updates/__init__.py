"""Causes in an optimizer: the gradient it works with, its slots, its schedule and the formula that it moves weights by."""
