"""Stands in for `apex` as a whole, on CPU and GPU, without Apex.

``import torch_ddp.apex as apex`` takes the place of ``import apex``; ``python -m torch_ddp.apex script.py`` runs a script
that imports apex and that nobody edits.

Counterpart: apex 25.04
"""

from torch_ddp.apex import amp, fp16_utils, multi_tensor_apply, normalization, optimizers, parallel
from torch_ddp.apex.missing import MissingFromApexError, names_of, watch_imports

__all__ = [
    "MissingFromApexError",
    "amp",
    "fp16_utils",
    "multi_tensor_apply",
    "normalization",
    "optimizers",
    "parallel",
]

__getattr__ = names_of(__name__)
watch_imports()
