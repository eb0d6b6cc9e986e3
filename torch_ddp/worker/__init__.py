"""The torch worker: forks the ranks, and has them run what it is asked for."""
