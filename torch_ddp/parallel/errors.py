"""The error that every name of `torch_ddp.parallel` and `torch_ddp.reduction` raises for a user's mistake."""

from torch_ddp.errors import TorchDdpError


class ParallelError(TorchDdpError):
    """Says what was expected of an argument, a model or the ranks, what was there, and what to do."""
