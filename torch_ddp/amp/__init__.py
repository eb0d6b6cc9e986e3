"""Mixed precision with the calls and the rules of Apex amp, on CPU and GPU, without Apex.

`from torch_ddp import amp` takes the place of `from apex import amp`.
"""

from torch_ddp.amp.checkpoint import load_state_dict, state_dict
from torch_ddp.amp.errors import AmpError, BannedFunctionError
from torch_ddp.amp.initialize import initialize
from torch_ddp.amp.optimizer import step_was_skipped
from torch_ddp.amp.optimizer_state import master_params
from torch_ddp.amp.registry import (
    float_function,
    half_function,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from torch_ddp.amp.scale_loss import scale_loss
from torch_ddp.amp.session import deactivate, disable_casts

__all__ = [
    "AmpError",
    "BannedFunctionError",
    "deactivate",
    "disable_casts",
    "float_function",
    "half_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
    "step_was_skipped",
]
