"""Judges again what rounding, and not the port, decides."""
