"""The source of a port: expressions, statements, layers, functions, and the program that they make."""
