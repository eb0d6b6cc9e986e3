"""The errors that users of `torch_ddp` see."""


class TorchDdpError(ValueError):
    """Something that was passed in, or the environment, is not what it should be; the message says what to do."""


class CheckpointError(TorchDdpError):
    """A checkpoint cannot be written or does not belong to this training; the message says what to do."""


class NonFiniteError(TorchDdpError):
    """A loss, gradient, weight or slot of a training is infinite or NaN; the message names it."""
