"""Detectors of causes that two traces show by themselves."""
