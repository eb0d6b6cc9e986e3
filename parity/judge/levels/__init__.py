"""The levels of a verdict, one module each: what is allowed there, and why."""
