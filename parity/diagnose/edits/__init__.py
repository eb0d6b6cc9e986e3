"""Single changes of a recorded forward pass, tried until one gives the candidate's numbers."""
