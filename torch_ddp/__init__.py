"""The PyTorch equivalent of TensorFlow 1 towers: DistributedDataParallel with the same semantics."""
