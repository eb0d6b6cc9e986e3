"""The scripts beside a port: the program that trains it, with its first values, and the test that proves it."""
