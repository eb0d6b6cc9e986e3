"""One training step under DistributedDataParallel."""
