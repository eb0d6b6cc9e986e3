"""Looks for the cause of a difference at the place where two forward passes part."""
