"""The errors that users of `torch_ddp.fp16_utils` see."""

from torch_ddp.errors import TorchDdpError


class Fp16Error(TorchDdpError):
    """Says what is wrong with a call of `torch_ddp.fp16_utils`."""
