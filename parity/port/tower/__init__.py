"""A tower of a recorded graph, rewritten until a reader would have written it so."""
