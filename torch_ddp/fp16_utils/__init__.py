"""The tools of `apex.fp16_utils` for loops written by hand: half models and float32 master weights.

`torch_ddp.amp` does the same by itself; these serve code that was written before it.
"""

from torch_ddp.fp16_utils.convert import (
    BN_convert_float,
    Fp16Error,
    FP16Model,
    convert_module,
    convert_network,
    network_to_half,
    tofp16,
)
from torch_ddp.fp16_utils.loss_scaler import (
    DynamicLossScaler,
    LossScaler,
)
from torch_ddp.fp16_utils.master_weights import (
    clip_grad_norm,
    master_params_to_model_params,
    model_grads_to_master_grads,
    prep_param_lists,
    to_python_float,
)
from torch_ddp.fp16_utils.optimizer import (
    FP16_Optimizer,
)

__all__ = [
    "BN_convert_float",
    "DynamicLossScaler",
    "FP16Model",
    "FP16_Optimizer",
    "Fp16Error",
    "LossScaler",
    "clip_grad_norm",
    "convert_module",
    "convert_network",
    "master_params_to_model_params",
    "model_grads_to_master_grads",
    "network_to_half",
    "prep_param_lists",
    "to_python_float",
    "tofp16",
]
