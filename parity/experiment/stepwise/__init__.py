"""Records and judges a case step by step: of each step tensors are there until it is judged, then numbers alone."""
