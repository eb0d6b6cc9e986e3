"""The errors that users of `torch_ddp` see."""


class TorchDdpError(ValueError):
    """Something that was passed in, or the environment, is not what it should be; the message says what to do."""
