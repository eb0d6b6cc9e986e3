"""Starts a training program of PyTorch under observation, and makes one trace of what its ranks recorded.

What observes within the program's processes is `torch_ddp.record`.
"""
