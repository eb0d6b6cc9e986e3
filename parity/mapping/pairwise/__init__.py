"""What is found out of all pairs of two lists at once: which are alike, which agree, and which go together."""
