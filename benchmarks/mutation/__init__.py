"""Draws small changes of the packages, and finds the tests that can see each."""
