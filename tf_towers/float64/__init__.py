"""Graphs in float64: what has no float64 kernel is written as other ops, constants are read as written."""
