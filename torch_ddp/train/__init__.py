"""A training toolkit: evaluation, samplers, launch."""
