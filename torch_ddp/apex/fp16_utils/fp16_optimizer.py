"""The module that scripts import FP16_Optimizer from."""

from torch_ddp.fp16_utils import FP16_Optimizer

__all__ = ["FP16_Optimizer"]
