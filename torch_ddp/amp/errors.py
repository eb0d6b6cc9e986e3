"""The errors that users of `torch_ddp.amp` see."""

from torch_ddp.errors import TorchDdpError


class AmpError(TorchDdpError, RuntimeError):
    """Says what is wrong with a call of `torch_ddp.amp`; a RuntimeError too, because that is what Apex raised."""


class BannedFunctionError(AmpError, NotImplementedError):
    """Refuses a function that half precision makes unsafe; a NotImplementedError too, because Apex raised that."""
