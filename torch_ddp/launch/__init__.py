"""Launches ranks from the command line, and tells which of several failures came first."""
