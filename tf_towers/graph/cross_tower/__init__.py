"""Towers that exchange tensors while they are built."""
