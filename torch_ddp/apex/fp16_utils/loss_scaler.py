"""The module that scripts import the loss scalers of loops written by hand from."""

from torch_ddp.fp16_utils import DynamicLossScaler, LossScaler, to_python_float

__all__ = ["DynamicLossScaler", "LossScaler", "to_python_float"]
